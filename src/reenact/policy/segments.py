"""Which relative paths are safe to use on any system, as names of cassettes and of files beside them.

A name comes from a manifest, a marker or a policy, which others may have written. It must lead to the
same place below its folder wherever the repository is checked out: where folders are separated by
backslashes, where names are folded or normalised, and where some names are devices.
"""

from __future__ import annotations

from typing import Final

from reenact.policy.patterns import late

__all__ = ["LONGEST", "LONGEST_SEGMENT", "unsafe"]

LONGEST: Final = 1_000
"""Bytes of a whole path. File systems end at 1,024 or 4,096, folders above it included."""

LONGEST_SEGMENT: Final = 200
"""Bytes of one segment. File systems end at 255, and files beside a cassette have longer names."""

_OURS = (".reenact", ".x07_")
_DRIVE = late(r"[A-Za-z]:")
_DEVICE = late(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])\s*(\..*)?")
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
"""Categories of characters that steer what is shown, or end a line."""

_JOINERS = "\u200c\u200d"
"""Unseen, and needed to write Persian, Hindi and some emoji."""

_ALIKE: Final = {
    **dict.fromkeys("\u2044\u2215\u29f8\u2571\u338d", "/"),
    **dict.fromkeys("\u2216\u29f5\u29f9\u2572", "\\"),
}
"""Characters that look like a separator; others are found because they stand for one."""


def unsafe(name: str) -> str | None:
    """Why ``name`` is not a path that stays below a folder, on any system; None when it is."""
    if not name:
        return "it is empty"
    if "\0" in name or "\\" in name:
        return "it has a NUL" if "\0" in name else "it has a backslash"
    if name.startswith("/"):
        return "it is absolute"
    if _DRIVE.match(name):
        return "it starts with a drive letter"
    if not name.isascii() or not name.isprintable():
        reason = _odd(name)
        if reason is not None:
            return reason
    if len(name.encode()) > LONGEST:
        return f"it has more than {LONGEST} bytes"
    return next(filter(None, map(_unsafe_segment, name.split("/"))), None)


def _odd(name: str) -> str | None:
    """Names in plain letters, which nearly all are, do not come here."""
    from unicodedata import category, normalize

    for char in name:
        if category(char) == "Cs":
            return "it is not UTF-8"
        if category(char) in _UNSEEN and char not in _JOINERS:
            return f"it has a character that cannot be seen, U+{ord(char):04X}"
        alike = _ALIKE.get(char) or next((o for o in normalize("NFKC", char) if o in "/\\"), "")
        if char != "/" and alike:
            return f"it has U+{ord(char):04X}, which looks like {alike!r}"
    return None


def _unsafe_segment(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"it has the segment {segment!r}" if segment else "it has an empty segment"
    folded = segment.lower() if segment.isascii() else _folded(segment)
    if folded in (".", ".."):
        return f"it has the segment {segment!r}, which looks like {folded!r}"
    if folded.startswith(_OURS):
        return f"a segment starts with {next(o for o in _OURS if folded.startswith(o))}"
    if folded[-1:] in (".", " "):
        return "a segment ends with a dot or a space, which Windows leaves out"
    if _DEVICE.fullmatch(folded):
        return f"{segment[:20]!r} is the name of a device on Windows"
    if len(segment.encode()) > LONGEST_SEGMENT:
        return f"a segment has more than {LONGEST_SEGMENT} bytes"
    return None


def _folded(segment: str) -> str:
    """As file systems see it that look past case, forms and joiners."""
    from unicodedata import normalize

    without = segment.translate(dict.fromkeys(map(ord, _JOINERS)))
    return normalize("NFKC", without).casefold()
