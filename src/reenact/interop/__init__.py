"""Recordings of other tools: one file for each, read and written, and what was lost is said."""
