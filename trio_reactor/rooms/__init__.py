"""Rooms: local-first replicas of many shared rooms."""
