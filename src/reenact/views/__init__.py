"""Recordings, for people: the calls that they hold, what those say, and what two of them differ in."""
