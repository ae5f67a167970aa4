"""Executions as local processes, each under a guard of its own."""

from __future__ import annotations

from .local import LocalProcesses

__all__ = ["LocalProcesses"]
