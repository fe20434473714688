"""Folder on the ``PYTHONPATH`` of every Python process of a run; not imported as a package."""
