"""The event log of a recording: append, random access, checksums, the journal of calls in progress."""
