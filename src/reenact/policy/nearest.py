"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar of the ``known`` names, ignoring case; None if none is similar."""
    from difflib import get_close_matches  # most programs make no mistakes

    spelled = {one.lower(): one for one in known}
    found = get_close_matches(name[:120].lower(), spelled, 1, 0.6)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint: the nearest name, else all of them."""
    names = sorted(known)
    found = nearest(name, names)
    if found is not None:
        return f"did you mean {found}?"
    return f"one of {', '.join(names)}" if names else "none is known"
