"""HTTP and websocket exchanges as data, for the boundaries of all client libraries."""
