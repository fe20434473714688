"""Divergences: differences between a replayed program and its recording, and their explanation."""
