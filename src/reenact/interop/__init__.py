"""Foreign formats: one module per format, which reads and writes it and reports losses."""
