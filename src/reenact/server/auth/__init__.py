"""Authentication and permissions."""
