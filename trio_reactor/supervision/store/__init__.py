"""Stores: where the journal of sessions is."""
