"""The API, described: OpenAPI made of the table of routes, and a page over it."""
