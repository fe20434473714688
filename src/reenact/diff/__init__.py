"""What differs between two values (pure)."""
