"""Many recordings re-enacted against the code as it is now."""
