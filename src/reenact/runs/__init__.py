"""Whole programs under Reenact: ``reenact run``."""
