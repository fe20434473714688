"""Processes that the program starts: recorded while they run, replaced by stand-ins in a replay."""
