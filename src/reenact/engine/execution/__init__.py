"""Execution of decisions: serve, make, refuse or repeat a call, as a single result or as a stream."""
