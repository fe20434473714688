"""Transcript of a process: its output and input, in turns, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from reenact.boundaries.http.stored_body import as_text
from reenact.boundaries.processes.relay import NAMES
from reenact.errors import RecordingDamaged
from reenact.format.decoders import build_decoders
from reenact.format.event import Data
from reenact.policy.redaction.redactor import Screen

__all__ = ["ENDED", "Account", "GrowingAccount", "Turn", "load_account"]

ENDED: Final = 0
"""Pseudo stream number for the end of the process."""


class Turn(msgspec.Struct, array_like=True, frozen=True):
    """One action of a process: ``size`` bytes on a stream, or its end.

    A size of 0 is the end of the stream. Before the action, the process had received ``told`` bytes
    of input (plus one for the end of its standard input) and ``signals`` signals.
    """

    stream: int
    size: int
    told: int
    signals: int


build_decoders(Turn)


class Account(msgspec.Struct):
    """All of it. ``exit_code`` is negative for a signal, None while the process runs."""

    said: dict[int, bytearray] = msgspec.field(
        default_factory=lambda: {stream: bytearray() for stream in NAMES}
    )
    told: bytearray = msgspec.field(default_factory=bytearray)
    turns: list[Turn] = msgspec.field(default_factory=list)
    exit_code: int | None = None

    def add(self, turn: Turn, data: bytes) -> None:
        """Add a turn."""
        self.turns.append(turn)
        if turn.stream != ENDED:
            self.said[turn.stream] += data

    def dump(self) -> Data:
        """Return the recorded form."""
        response: Data = {
            name: as_text(bytes(self.said[stream]))
            for stream, name in NAMES.items()
            if self.said[stream]
        }
        if self.told:
            response["stdin"] = as_text(bytes(self.told))
        response["turns"] = [list(msgspec.structs.astuple(turn)) for turn in self.turns]
        response["exitCode"] = self.exit_code
        return response

    def pieces(self) -> list[tuple[Turn, bytes]]:
        """Return each turn with its bytes.

        Redaction can change the length, so the last piece of a stream gets the difference.
        """
        last = {turn.stream: at for at, turn in enumerate(self.turns) if turn.size}
        at = dict.fromkeys(NAMES, 0)
        found: list[tuple[Turn, bytes]] = []
        for number, turn in enumerate(self.turns):
            if turn.stream == ENDED or not turn.size:
                found.append((turn, b""))
                continue
            start = at[turn.stream]
            at[turn.stream] = end = start + turn.size
            whole = self.said[turn.stream]
            found.append((turn, bytes(whole[start : None if last[turn.stream] == number else end])))
        return found


def load_account(response: Any, place: str) -> Account:
    """Read the transcript from its recorded form. Raises :class:`RecordingDamaged`."""
    try:
        turns = msgspec.convert(response["turns"], list[Turn])
        code = msgspec.convert(response.get("exitCode"), int | None)
        said = {stream: _bytes(response.get(name)) for stream, name in NAMES.items()}
        told = _bytes(response.get("stdin"))
        if any(turn.stream not in (ENDED, *NAMES) for turn in turns):
            raise TypeError("a turn of no stream")
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise RecordingDamaged(
            f"cannot read the process transcript in {place}: {error}", place=place
        ) from None
    return Account(said, told, turns, code)


def _bytes(value: Any) -> bytearray:
    if value is None:
        return bytearray()
    if isinstance(value, str):
        return bytearray(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return bytearray(value)
    raise TypeError(f"{type(value).__name__} in place of output")


class GrowingAccount:
    """Parts of a growing transcript that can already be written, so that a kill loses little data."""

    def __init__(self, screen: Callable[[], Screen]) -> None:
        self._screens = {stream: screen() for stream in NAMES}
        self._held = {stream: bytearray() for stream in NAMES}
        self._written = dict.fromkeys(NAMES, 0)

    def add(self, turn: Turn, data: bytes) -> Data:
        """Return the data that ``turn`` adds to the recording."""
        part: Data = {"turns": [list(msgspec.structs.astuple(turn))]}
        if data:
            held = self._held[turn.stream]
            held += data
            safe = self._screens[turn.stream].add(data) - self._written[turn.stream]
            if safe > 0:
                part[NAMES[turn.stream]] = as_text(bytes(held[:safe]))
                del held[:safe]
                self._written[turn.stream] += safe
        return part
