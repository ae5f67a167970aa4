"""One unbroken logical session out of many sessions that expire."""
