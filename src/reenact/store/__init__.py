"""Recordings on disk: capture directories and tape files, behind one Sink and one Source."""
