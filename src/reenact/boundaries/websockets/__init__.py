"""``websockets``: its clients for tasks and for threads."""
