"""The connection: rooms that follow their authority."""
