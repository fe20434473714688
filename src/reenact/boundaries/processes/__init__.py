"""Processes that the program starts: recorded as they go, and stood in for in a replay."""
