"""Timeline of a recording."""
