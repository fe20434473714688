"""Self-contained HTML pages about recordings."""
