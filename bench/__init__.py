"""The promised speeds, measured: ``python -m bench``. See docs/reference/benchmarks.md."""
