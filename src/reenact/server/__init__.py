"""The server of exchange replay: history, commands, permissions, audit."""
