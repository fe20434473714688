"""What the server counts, for Prometheus."""
