"""The local store: what is held of each room, durably."""
