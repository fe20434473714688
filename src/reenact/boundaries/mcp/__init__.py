"""Clients of the Model Context Protocol: what they ask their servers, message by message."""
