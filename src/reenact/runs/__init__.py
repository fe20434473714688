"""Complete programs under Reenact: ``reenact run`` and ``reenact fork``."""
