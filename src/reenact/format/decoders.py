"""Decoders that are built before several threads use them.

msgspec inspects a class when it is decoded for the first time. A second thread that decodes the
same class meanwhile gets a half-built result, and the process crashes.
"""

from __future__ import annotations

import msgspec

__all__ = ["build_all_decoders", "build_decoders"]


def build_decoders(*kinds: type) -> None:
    """Build the decoders of these classes and of their fields.

    The module that defines the classes calls this while it is imported, before any other thread can
    decode them.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)


def build_all_decoders() -> None:
    """Build the decoders of all imported classes of Reenact. A built decoder costs next to nothing."""
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
