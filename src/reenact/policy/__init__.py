"""Policies: allowed capabilities, comparison rules, and redaction of secrets."""
