"""Policies and test manifests of X07, read as those of Reenact."""
