"""Differences between two values, sequences or texts.

Pure: no clock, no files, no network. Used by divergence reports, run comparison and exchange
comparison.
"""
