"""Boundaries: patches that turn the calls of client libraries and of the standard library into data."""
