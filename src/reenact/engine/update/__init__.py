"""Updates of a recording: unchanged calls are kept, changed or new ones are made live.

Modes ``record_missing`` and ``update``."""
