"""Why a replay diverged: the usual causes, each with its evidence and with what would settle it."""
