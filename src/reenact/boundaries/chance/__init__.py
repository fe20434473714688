"""Chance: what a program draws of ``random``, ``os.urandom``, ``uuid``, ``tempfile`` and numpy."""
