"""Lenses: the meaning of model traffic, one module per API, all pure."""
