"""The engine: what an application asks for, and what became of it.

`routing` says, pure, which source takes a request, and `sequences` keeps, pure, what belongs
together; `submission` is one request from its preparation to its outcome, `dispatch` one command on
its way to a source, `register` the sequences as the application sees them, and `engine` puts them
together on a chain.
"""
