"""Explanation of divergences: likely causes, evidence and remedies."""
