"""Clients of the Model Context Protocol, message by message."""
