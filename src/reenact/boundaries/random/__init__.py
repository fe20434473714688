"""Random values: ``random``, ``os.urandom``, ``uuid``, ``tempfile`` and ``numpy.random``."""
