"""Accounts, sessions, keys, grants."""
