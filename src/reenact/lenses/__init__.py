"""What model traffic means: one file per API, all pure."""
