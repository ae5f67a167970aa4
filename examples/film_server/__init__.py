"""A server of paid sessions that play scenes of a film, each for a while only.

An ordinary program: `python -m examples.film_server FILM --port 0` prints one line of JSON with its
port when it is ready.  It stands for the services that sell a stream by the minute: a session takes
orders for clips, builds them, plays them in real time, and is cut off when its time is over.
"""
