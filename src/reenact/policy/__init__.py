"""What is allowed, and what must not be kept."""
