"""Boundaries for facts about the machine, and about the program's own process."""
