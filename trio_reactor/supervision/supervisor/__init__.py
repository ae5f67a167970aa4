"""The supervisor: it holds sessions, each with at most one execution.

Read `supervisor` for what a user sees and `engine` for how it is put together.  `opening`,
`loading`, `stopping` and `recovery` are what is done with a session; `transitions` is the one way
in which any of them changes it, and `session` what is kept of it.  `registry` finds it, `alarms`
wakes it, and `health` says whether any of it can still be believed.
"""
