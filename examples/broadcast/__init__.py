"""One continuous picture and sound, out of sessions that each live only a few seconds."""
