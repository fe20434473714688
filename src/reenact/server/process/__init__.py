"""The server process: start, data folder, logs, key rotation."""
