"""Exchanges and their replays: taken in, looked at, run again, compared."""
