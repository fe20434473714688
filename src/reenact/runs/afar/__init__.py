"""Recordings that lie on a server or in an object store: named, got, kept for a while."""
