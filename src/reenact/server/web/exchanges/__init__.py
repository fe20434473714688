"""Pages about exchanges: history, details, comparison, noise rules and saved searches."""
