"""A recording as one page for a browser: everything inside, nothing loaded, nothing obeyed."""
