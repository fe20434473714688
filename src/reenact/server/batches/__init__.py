"""Batch replay: counted first, confirmed, driven on by the server, and saved searches."""
