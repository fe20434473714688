"""Deltas: a payload stored as its changes against an earlier one.

A delta is a list of operations that rebuild the target from left to right: ``[start, length]``
copies bytes of the base, a string is inserted. An integer copies this number of bytes from the
current position: the end of the last copy, moved by the length of later insertions.
``[times, text]`` inserts the text escaped ``times`` times as in a JSON string. Agent conversations
resend their complete history, so almost everything is a copy. The digest of the result is stored
with the delta, so that a delta either rebuilds the exact bytes or is detected as damaged.

Rejected alternatives: pooling repeated values by hash (the references themselves grow with the
square of the number of turns), and a suffix-array diff (exact but far too slow in pure Python).
The greedy scan below costs a few slices per difference, not per byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

__all__ = ["Edit", "Op", "apply", "diff", "expanded_size", "shorten"]

Edit = list[int] | str
Op = Edit | int | tuple[int, str]

_PROBE = 32
_BLOCK = _PROBE // 2
_SLACK = 2048
_MOST_ESCAPED = 2
"""A text of JSON in a text of JSON. Each time can make a text six times as long."""
_FEWEST = 4
"""Backslashes that make it worth while to look for the plain text."""


def diff(base: bytes, target: bytes, side: bytes = b"") -> list[Edit]:
    """Operations that turn ``base + side`` into ``target``. All three are UTF-8 text.

    ``base`` is what the target is a new edition of (the previous request); ``side`` is where its
    new parts may come from (the answer to that request).
    """
    end = _same_back(base, len(base), target, len(target), min(len(base), len(target)))
    base_end, target_end = len(base) - end, len(target) - end
    copies = _Copies(base, side)
    other = _Side(side)
    home, done = 0, 0
    while done < target_end:
        run = _same(base, home, base_end, target, done, target_end)
        copies.copy(home, run)
        home, done = home + run, done + run
        if done >= target_end:
            break
        found = _resume(base, home, base_end, other, target, done, target_end)
        if found is None:
            copies.insert(target[done:target_end])
            break
        copies.insert(target[done : found.target])
        done = found.target
        if found.aside:
            run = _same(side, found.place, len(side), target, done, target_end)
            copies.copy(len(base) + found.place, run)
            done += run
        else:
            home = found.place
    copies.copy(base_end, end)
    return copies.ops()


def _same(a: bytes, i: int, i_end: int, b: bytes, j: int, j_end: int) -> int:
    """Length of the common run that starts at a[i] and b[j]."""
    limit = min(i_end - i, j_end - j)
    good, step = 0, 64
    while step:
        step = min(step, limit - good)
        if step and a[i + good : i + good + step] == b[j + good : j + good + step]:
            good += step
            step *= 2
        else:
            return good + _narrow(a, i + good, b, j + good, step)
    return good


def _narrow(a: bytes, i: int, b: bytes, j: int, size: int) -> int:
    """Like _same, for a stretch of ``size`` that is known to differ somewhere (binary search)."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if a[i + low : i + middle] == b[j + low : j + middle]:
            low = middle
        else:
            high = middle
    return low


def _same_back(a: bytes, i: int, b: bytes, j: int, limit: int) -> int:
    """Length of the common run that ends before a[i] and b[j], at most ``limit``."""
    good, step = 0, 64
    while step:
        step = min(step, limit - good)
        if step and a[i - good - step : i - good] == b[j - good - step : j - good]:
            good += step
            step *= 2
        elif step <= 1:
            return good
        else:
            step //= 2
            limit = min(limit, good + 2 * step)
    return good


class _Side:
    """The side with an index: it is asked often, and reading it through each time is dear."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        starts = range(0, len(text) - _BLOCK + 1, _BLOCK)
        self._blocks = {text[start : start + _BLOCK]: start for start in starts}

    def find(self, probe: bytes) -> int:
        """Return the position of ``probe`` in the base, or -1. For a repeated block it is the last
        position.
        """
        for shift in range(_BLOCK if self._blocks else 0):
            place = self._blocks.get(probe[shift : shift + _BLOCK], -1) - shift
            if place >= 0 and self.text.startswith(probe, place):
                return place
        return -1


class _Meeting(NamedTuple):
    place: int
    target: int
    aside: bool


def _resume(
    base: bytes, home: int, base_end: int, side: _Side, target: bytes, done: int, target_end: int
) -> _Meeting | None:
    """Return the position where the target matches the base (or the side) again."""
    ahead = 0
    while done + ahead + _PROBE <= target_end:
        there = done + ahead
        probe = target[there : there + _PROBE]
        place = base.find(probe, home, min(base_end, home + 2 * ahead + _SLACK))
        if place >= 0:
            back = _same_back(base, place, target, there, min(ahead, place - home))
            return _Meeting(place - back, there - back, aside=False)
        place = side.find(probe)
        if place >= 0:
            back = _same_back(side.text, place, target, there, min(ahead, place))
            return _Meeting(place - back, there - back, aside=True)
        # Small enough not to step over the frame around a long new text.
        ahead += max(8, ahead // 16)
    return None


class _Copies:
    """Collects operations, and gives back to the inserts the characters that a copy would cut."""

    def __init__(self, base: bytes, side: bytes) -> None:
        self._whole = base + side if side else base
        self._pieces: list[bytes | list[int]] = []

    def copy(self, start: int, length: int) -> None:
        whole, stop = self._whole, start + length
        first, last = start, stop
        while first < stop and whole[first] & 0xC0 == 0x80:
            first += 1
        while first < last < len(whole) and whole[last] & 0xC0 == 0x80:
            last -= 1
        self.insert(whole[start:first])
        if last > first:
            self._pieces.append([first, last - first])
        self.insert(whole[last:stop])

    def insert(self, text: bytes) -> None:
        if not text:
            return
        previous = self._pieces[-1] if self._pieces else None
        if isinstance(previous, bytes):
            self._pieces[-1] = previous + text
        else:
            self._pieces.append(text)

    def ops(self) -> list[Edit]:
        return [piece.decode() if isinstance(piece, bytes) else piece for piece in self._pieces]


def shorten(ops: list[Edit]) -> list[Op]:
    """``ops`` in fewer bytes: an integer for a copy from where the last operation has led to, and
    the plain text for an insert that is escaped as in a JSON string."""
    short: list[Op] = []
    place = 0
    for op in ops:
        if isinstance(op, str):
            short.append(_plain(op))
            place += len(op) if op.isascii() else len(op.encode())
        else:
            start, length = op
            short.append(length if start == place else op)
            place = start + length
    return short


def _plain(text: str) -> Op:
    """``text``, or the text of which it is the escaped form with the number of times."""
    if text.count("\\") < _FEWEST:
        return text
    found, times = text, 0
    while times < _MOST_ESCAPED and (inner := _unescaped(found)) is not None:
        found, times = inner, times + 1
    return (times, found) if times else text


def _unescaped(text: str) -> str | None:
    """The text whose JSON string has ``text`` between its quotes, if there is one."""
    try:
        inner = orjson.loads(f'"{text}"')
    except orjson.JSONDecodeError:
        return None
    same = isinstance(inner, str) and "\\" in text and _escaped(inner) == text
    return inner if same else None


def _escaped(text: str) -> str:
    return orjson.dumps(text)[1:-1].decode()


def expanded_size(base_size: int, ops: list[Any]) -> int:
    """Return the size of the target without building it.

    ``base_size`` is the size of the base. Raises ValueError when an operation does not fit it.
    """
    return sum(
        len(step) if isinstance(step, bytes) else step.stop - step.start
        for step in _steps(base_size, ops)
    )


def apply(base: bytes, ops: list[Any]) -> bytes:
    """Rebuild the target. Raises ValueError when an operation does not fit ``base``."""
    return b"".join(
        step if isinstance(step, bytes) else base[step.start : step.stop]
        for step in _steps(len(base), ops)
    )


def _steps(base_size: int, ops: list[Any]) -> Iterator[bytes | range]:
    """Each operation as the text that it inserts, or as the range of the base that it copies."""
    place = 0
    for op in ops:
        text = op if isinstance(op, str) else _inserted(op)
        if text is not None:
            encoded = text.encode()
            place += len(encoded)
            yield encoded
            continue
        start, length = (place, op) if type(op) is int else _copied(op)
        if start < 0 or length < 0 or start + length > base_size:
            raise ValueError(f"copies {start}+{length} of {base_size} bytes")
        place = start + length
        yield range(start, place)


def _inserted(op: Any) -> str | None:
    """The text of ``[times, text]``; None for any other operation."""
    if not (isinstance(op, list) and len(op) == 2 and isinstance(op[1], str)):
        return None
    times, text = op
    if type(times) is not int or not 0 < times <= _MOST_ESCAPED:
        raise ValueError(f"escapes a text {str(times)[:32]} times")
    for _ in range(times):
        text = _escaped(text)
    return str(text)


def _copied(op: Any) -> tuple[int, int]:
    if not (isinstance(op, list) and len(op) == 2):
        raise ValueError("neither text nor a copy")
    start, length = op
    if type(start) is not int or type(length) is not int:
        raise ValueError("neither text nor a copy")
    return start, length
