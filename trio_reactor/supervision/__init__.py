"""Supervision: leased, fenced, journaled worker processes."""
