"""Stored payloads: inline, as a delta on earlier payloads, or as blobs."""
