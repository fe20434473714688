"""Classes that are decoded in several threads are built in one, before there are others.

msgspec builds what it knows of a class when that is decoded for the first time. A thread that decodes
the same class meanwhile gets what is half built, and the process crashes.
"""

from __future__ import annotations

import msgspec

__all__ = ["build_all_decoders", "build_decoders"]


def build_decoders(*kinds: type) -> None:
    """These classes, and those that their fields have. In the module that defines them, as it is
    imported: nobody else decodes them yet."""
    for kind in kinds:
        msgspec.json.Decoder(kind)


def build_all_decoders() -> None:
    """All of ours that have been imported. What is built already costs next to nothing."""
    waiting: list[type] = [msgspec.Struct]
    kind: type
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.partition(".")[0] == "reenact":
                try:
                    build_decoders(kind)
                except (TypeError, NameError):
                    continue  # has fields that no JSON has, or names only for type checkers
