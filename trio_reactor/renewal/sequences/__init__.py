"""Sequences: requests that one source plays, with a bound and an end that is known.

`book` keeps them, pure; `register` has them for the chain and the engine, and `view` shows them to
the application.
"""
