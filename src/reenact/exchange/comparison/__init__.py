"""Two exchanges side by side: what differs, what of it is noise, and what belongs together (pure)."""
