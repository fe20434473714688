"""The pages of a server: HTML made here, small modules for what moves, and nothing from elsewhere."""
