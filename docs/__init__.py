"""The documentation; `generators` makes what only the code knows."""
