"""Policies and test manifests of X07, converted to Reenact's."""
