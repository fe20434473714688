"""Recording: events written by a session, their budgets, and the sinks that they are written to."""
