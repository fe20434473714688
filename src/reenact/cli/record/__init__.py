"""Commands that run programs: record, replay, fork, and replay of many recordings."""
