"""The engine: what an application asks for, and what became of it.

`routing` says, pure, which source takes a request; `submission` is one request from its preparation
to its outcome, `dispatch` one command on its way to a source, and `engine` puts them together on a
chain.
"""
