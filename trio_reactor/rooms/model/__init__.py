"""What rooms are about: paths, entries, edits, answers, and what is followed.  Pure values."""
