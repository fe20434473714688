"""Capture directories: their layout, their writer, and the segments of further processes."""
