"""urllib3, and with it whatever is built on it."""
