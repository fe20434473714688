"""App agents: registration, presence, commands."""
