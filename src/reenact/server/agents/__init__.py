"""Agents: who is there, and what they are told to do."""
