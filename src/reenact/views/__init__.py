"""Read-only views of recordings: calls, comparison, timeline, explanation and HTML pages."""
