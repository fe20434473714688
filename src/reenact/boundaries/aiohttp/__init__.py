"""aiohttp: HTTP exchanges and websockets of its client sessions."""
