"""Tenants and their environments."""
