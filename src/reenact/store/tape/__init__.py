"""Tapes: recordings in a single file that can be reviewed and checked in."""
