"""Own what does not last."""
