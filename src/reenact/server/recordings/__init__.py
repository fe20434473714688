"""Captures of runs: pushed, kept, pulled."""
