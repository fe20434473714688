"""Sessions: the scope in which calls are recorded, replayed or refused."""
