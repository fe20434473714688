"""Replays of exchanges, from the request to the verdict."""
