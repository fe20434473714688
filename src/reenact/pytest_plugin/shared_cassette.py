"""Cassette that the tests of a class or module share, with one part per test.

A part consists of the events of one lane. The lane number is derived from the name of the test, and
its first event contains the name. So a test can be replayed and recorded independently of the
others, in any order and process. Writers rewrite the complete file, one at a time.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import msgspec

from reenact._system import start_clock
from reenact.format.event import ROOT_LANE, Data, Draft, Event, lane_order
from reenact.format.manifest import Manifest, Seed
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.reader import open_recording
from reenact.store.sinks.base import Options
from reenact.store.sinks.copy import Copier
from reenact.store.sinks.tape import TapeSink
from reenact.store.source import LogSource

__all__ = ["Part"]

_BEGIN = "run_start"


class Part:
    """Part of the test ``name`` in the tape ``path``, which can be missing."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        number = crc32(name.encode("utf-8", "surrogatepass")) + 1
        self.lane = f"{ROOT_LANE}.{number}"

    def _has(self, event: Event) -> bool:
        return event.lane == self.lane or event.lane.startswith(f"{self.lane}.")

    def is_there(self) -> bool:
        """Return True if the test has been recorded. Raises the errors of opening a recording."""
        if not self.path.exists():
            return False
        with open_recording(self.path) as source:
            return any(event.type == _BEGIN and self._has(event) for event in source)

    def profile(self) -> Profile | None:
        """Return the redaction profile of the cassette, which all parts must use; None if it is
        missing."""
        if not self.path.exists():
            return None
        with open_recording(self.path) as source:
            return source.manifest().redaction.profile

    def take_out(self, target: Path) -> None:
        """Copy the part to a separate tape."""
        with open_recording(self.path) as source:
            pieces = [_Piece(source, event) for event in source if self._has(event)]
            _write(target, pieces, source.manifest())

    def put_back(self, own: Path) -> None:
        """Replace the part with the tape ``own``. The other parts are unchanged."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.path), open_recording(own) as source:
            mine = [_Piece(source, event) for event in source]
            if not any(piece.event.type == _BEGIN for piece in mine):
                mine.insert(0, _Piece(None, self._beginning(source.manifest())))
            if not self.path.exists():
                _write(self.path, mine, source.manifest())
                return
            with open_recording(self.path) as old:
                others = [_Piece(old, event) for event in old if not self._has(event)]
                _write(self.path, _sorted([*others, *mine]), old.manifest())

    def _beginning(self, manifest: Manifest) -> Draft:
        data: Data = {"sessionKey": self.name}
        return Draft(type=_BEGIN, data=data, ts=manifest.created_at, lane=self.lane, op=_BEGIN)


class _Piece(msgspec.Struct, frozen=True):
    """Event of a recording, or a new event without a source."""

    source: LogSource | None
    event: Event | Draft


def _sorted(pieces: list[_Piece]) -> list[_Piece]:
    """Sort by part. The order inside a part is unchanged."""
    return sorted(pieces, key=lambda piece: lane_order(piece.event.lane)[:2])


def _write(target: Path, pieces: list[_Piece], like: Manifest) -> None:
    """Write events to a tape, without redaction, because they are already redacted."""
    values = {name: getattr(like, name) for name in Seed.__struct_fields__}
    options = Options(redactor=Redactor("none"))
    sink = TapeSink(target, clock=start_clock(), options=options, replace=True)
    sink.start(msgspec.structs.replace(Seed(**values), event_log_path="tape"))
    copiers: dict[int, Copier] = {}
    for piece in pieces:
        if piece.source is None or not isinstance(piece.event, Event):
            assert isinstance(piece.event, Draft)
            sink.append(piece.event)
            continue
        copier = copiers.get(id(piece.source)) or Copier(piece.source, sink)
        copiers[id(piece.source)] = copier
        copier.copy(piece.event.seq)
    sink.finalize("ok")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for writing. Its file is in the temporary folder of the system."""
    name = sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    lock = Path(tempfile.gettempdir()) / f"reenact-{os.getuid()}-{name}.lock"
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
