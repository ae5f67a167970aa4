"""The engine: what an application asks for, and what became of it.

`dispatch` is one command on its way to a source.
"""
