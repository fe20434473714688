"""Draws of random values: the drawing code, the recorded form, and replacements of lost values.

Bytes of the operating system's generator are keys and tokens. They are recorded under a name that
redaction matches, so a recording never contains them in clear. A replay with the sealing key
restores them. Without it, a replay gets made-up bytes and a warning.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from reenact.boundaries.caller_tier import Tier, caller, tier_of
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

__all__ = ["ANYBODY", "LARGEST", "apart", "bits", "drawer", "drawn", "octets", "text"]

T = TypeVar("T")

ANYBODY: Final = -100
"""In place of a number of frames: it does not matter who draws."""

LARGEST: Final = 4096
"""Bits of a number that is written as one; a larger one is written as bytes."""

_SECRET: Final = "drawnSecret"
"""Redaction covers what stands under a name with this ending."""

_HANDED_OVER: Final = frozenset(
    {
        ("reenact.engine.patches.thread_pools", "__call__"),
        ("threading", "run"),
        ("asyncio.events", "_run"),
    }
)
"""Functions that run jobs, thread targets and callbacks on behalf of the program."""

_LOST: Final = (
    "the recording has random values that were redacted and cannot be opened here: others, which "
    "are made up and the same every time, are served instead (a capture directory keeps them, "
    "sealed with a key)"
)

_made_up: WeakKeyDictionary[Session, Counter[str]] = WeakKeyDictionary()


def drawn(name: str, live: Callable[[], T], depth: int) -> T | Any:
    """Return the result of ``live`` for the code ``depth`` frames above the caller, or for the code
    that it draws for. It is drawn from the session unless that code is plumbing."""
    session = current()
    if session is None:
        return live()
    if depth < 0:
        return session.draws.draw(name, live)
    tier = drawer(depth + 1)
    if tier == "user":
        return session.draws.draw(name, live)
    return session.draws.draw_aside(name, live) if tier == "library" else live()


def drawer(depth: int) -> Tier:
    """Return the tier of the code that draws, ``depth`` frames above the caller."""
    frame = caller(depth + 1)
    if frame is None:
        return "plumbing"
    found = tier_of(frame.f_globals)
    if found == "plumbing":
        runs = frame.f_globals.get("__name__"), frame.f_code.co_name
        return "user" if runs in _HANDED_OVER else found
    return found


def apart(live: Callable[[], T]) -> T:
    """Call ``live`` outside the session, so that its own draws are not recorded."""
    token = enter_session(OUTSIDE)
    try:
        return live()
    finally:
        leave_session(token)


def bits(name: str, count: int, live: Callable[[], int], depth: int) -> int:
    """Draw a number of ``count`` bits."""
    if count > LARGEST:
        size = (count + 7) // 8
        found = drawn(name, lambda: live().to_bytes(size, "big"), depth + 1)
        number = int.from_bytes(_fitting(found, size), "big")
        return number if number.bit_length() <= count else number >> (size * 8 - count)
    found = drawn(name, live, depth + 1)
    if type(found) is int and found >= 0 and found.bit_length() <= count:
        return found
    return int.from_bytes(_expanded(found, (count + 7) // 8), "big") >> (-count % 8)


def octets(name: str, size: int, live: Callable[[], bytes], depth: int) -> bytes:
    """Draw ``size`` secret bytes."""
    found = drawn(name, lambda: {_SECRET: live().hex()}, depth + 1)
    written = found.get(_SECRET) if isinstance(found, dict) else found
    if isinstance(written, str):
        try:
            value = bytes.fromhex(written)
        except ValueError:
            value = b""
        if len(value) == size:
            return value
    return _expanded(written, size)


def text(name: str, live: Callable[[], str], depth: int) -> tuple[str, bytes]:
    """Draw a text. If it is lost, return an empty text and 16 bytes for a replacement."""
    found = drawn(name, live, depth + 1)
    if isinstance(found, str) and not found.startswith("***"):
        return found, b""
    return "", _expanded(found, 16)


def _fitting(found: Any, size: int) -> bytes:
    if isinstance(found, bytes) and len(found) == size:
        return found
    return _expanded(found, size)


def _expanded(found: Any, size: int) -> bytes:
    """Return bytes in place of a value of the wrong kind: a made-up number of a lenient replay, or
    a redacted value."""
    session = current()
    seed = found if isinstance(found, float) else 0.0 if session is None else _place(session)
    return hashlib.shake_256(f"reenact {seed!r}".encode()).digest(size)


def _place(session: Session) -> str:
    """Return a text that is different for each draw, and the same in each replay."""
    session.warn_once(_LOST)
    lane = session.lanes.current().name
    with session.lock:
        counts = _made_up.setdefault(session, Counter())
        counts[lane] += 1
        return f"{session.run_seed}/{lane}/{counts[lane]}"
