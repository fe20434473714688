"""aiohttp: its exchanges and its websockets."""
