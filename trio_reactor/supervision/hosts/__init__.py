"""Hosts: supervisors that share a journal, and what each may hold.

`takeover` says when another host's keys may be taken, as pure decisions; `tenure` does it.
"""
