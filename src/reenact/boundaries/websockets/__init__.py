"""``websockets``: its asyncio client and its threading client."""
