"""Hermetic replays: audit hook, checks of open connections, and a network namespace."""
