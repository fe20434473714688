"""Text in UTF-16 and UTF-32, which has NUL bytes between the letters of every name and token.

All other charsets in use write ASCII as ASCII, so that their bytes can be searched as they are. A body in
one of these two is recognised by its bytes, with or without a byte order mark, whatever its headers say:
three ASCII characters in a row are enough. Both byte orders are tried, the likely one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from reenact.policy.behind import Finding
from reenact.policy.literals import Span
from reenact.policy.patterns import late

__all__ = ["GATE_ESCAPED", "GATE_RAW", "Wide", "replace_wide", "wide_forms"]

GATE_RAW = r"(?:[\x09\x0a\x0d\x20-\x7e]\x00{1,3}){3}"
GATE_ESCAPED = r"(?:\\?[\x20-\x7e](?:\\u0000){1,3}){3}"
"""What the gate finds in the bytes, and in JSON that has them as a string."""

_UNITS = (
    (late(rb"(?:[\t\n\r -~]\x00){3}"), 2, "utf-16"),
    (late(rb"(?:[\t\n\r -~]\x00\x00\x00){3}"), 4, "utf-32"),
)
_MARK = "\ufeff"


class Wide(msgspec.Struct, frozen=True):
    """One way to read bytes: from ``offset`` on, ``size`` bytes for each unit, in ``encoding``."""

    offset: int
    size: int
    encoding: str

    def text(self, data: bytes) -> str | None:
        """The text of ``data``; what is cut off at its end is left out. None when it is none."""
        whole = (len(data) - self.offset) // self.size * self.size
        try:
            return data[self.offset : self.offset + whole].decode(self.encoding, "surrogatepass")
        except UnicodeDecodeError:
            return None

    def written(self, text: str) -> bytes:
        """``text`` as bytes."""
        return text.encode(self.encoding, "surrogatepass")

    def spans(self, text: str, found: Sequence[Finding]) -> list[Span]:
        """Where the findings, disjoint and in order, are in the bytes of ``text``."""
        spans: list[Span] = []
        done, place = 0, self.offset
        for one in found:
            start = place + len(self.written(text[done : one.start]))
            place = start + len(self.written(text[one.start : one.end]))
            done = one.end
            spans.append((start, place))
        return spans

    def covered(self, data: bytes, mark: str) -> bytes:
        """``mark`` in place of all of ``data``, with its byte order mark."""
        text = self.text(data) or ""
        return self.written(_MARK + mark if text.startswith(_MARK) else mark)


def wide_forms(data: bytes) -> Iterator[Wide]:
    """The ways to read ``data`` as UTF-16 or UTF-32; none for ordinary text and most binary data."""
    if b"\0" not in data:
        return
    for run, size, name in _UNITS:
        offsets = {match.start() % size for match in run.finditer(data)}
        for offset in sorted(offsets):
            little = Wide(offset, size, f"{name}-le")
            big = Wide((offset + 1) % size, size, f"{name}-be")
            yield from (little, big) if offset == 0 else (big, little)


def replace_wide(
    data: bytes, find: Callable[[str], list[Finding]], mark: Callable[[str], str]
) -> tuple[bytes, str]:
    """``data`` without the secrets of its wide texts, and the rule of the first, or ``""``."""
    rule = ""
    for form in wide_forms(data):
        text = form.text(data)
        found = find(text) if text else []
        if text is None or not found:
            continue
        rule = rule or found[0].rule
        pieces, done = [], 0
        for one, (start, end) in zip(found, form.spans(text, found), strict=True):
            new = one.quote + mark(text[one.start : one.end]) + one.quote
            pieces += [data[done:start], form.written(new)]
            done = end
        data = b"".join([*pieces, data[done:]])
    return data, rule
