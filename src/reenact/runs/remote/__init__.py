"""Recordings on a server or in an object store, and the cache for their downloads."""
