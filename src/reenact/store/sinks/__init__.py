"""Writers of recordings: capture directories, segments, tapes, buffered, copied and in memory."""
