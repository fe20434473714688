"""Regressions: replays of many recordings with a new version of a program."""
