"""Commands that run a server or call its API."""
