"""HTTP client and server-sent events on the standard library, for Reenact's own requests."""
