"""Traces in and out: OTLP over HTTP."""
