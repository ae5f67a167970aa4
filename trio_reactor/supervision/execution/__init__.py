"""Executions: what makes children, and makes sure that they end."""
