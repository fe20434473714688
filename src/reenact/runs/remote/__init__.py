"""Recordings on a server or in an object store: their locations, downloads and cache."""
