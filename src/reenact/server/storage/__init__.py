"""Database access. No other package contains SQL."""
