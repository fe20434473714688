"""HTTP layer below the handlers: connections, middleware, load limits, event streams."""
