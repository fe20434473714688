"""Redaction of secrets: detection by name, by token shape and by known value, and replacement."""
