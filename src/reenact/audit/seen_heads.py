"""The last head that was seen of each log, kept in a file of one's own.

On first use a head is believed; from then on the log must show that it grew from it. This is what
an operator who rewrites a history cannot get around: the file is not on their machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from reenact.audit.keys import Key
from reenact.audit.log import Head, open_head, parse_head
from reenact.audit.merkle import check_consistency
from reenact.errors import AuditInvalid, SinkError

__all__ = ["Seen", "SeenHeads"]

Seen = Literal["first", "same", "grown", "older"]
"""Relation of a head to the stored one. An ``older`` head is valid and is not stored."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["reenact-audit-heads/1"]
    heads: dict[str, str]


class SeenHeads:
    """A file of heads. Several processes may use one; it is readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def last(self, origin: str) -> Head | None:
        """The head that is kept of a log. Raises :class:`AuditInvalid` for a file that is damaged."""
        text = self._read().heads.get(origin)
        return None if text is None else parse_head(text.encode())

    def see(self, data: bytes, keys: Iterable[Key], proof: Sequence[bytes] = ()) -> Seen:
        """Compare a signed head with the one that is kept of its log, and keep the larger one.

        ``proof`` is the consistency proof between the two, from the smaller to the larger. Raises
        :class:`AuditInvalid` when none of ``keys`` signed the head, or the two do not agree; then
        what was kept stays.
        """
        head = open_head(data, keys)
        origin = head.checkpoint.origin
        with self._alone():
            last = self.last(origin)
            seen = _compare(last, head, proof)
            if seen in ("first", "grown"):
                self._write(origin, head)
        return seen

    def _read(self) -> _File:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _File("reenact-audit-heads/1", {})
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        try:
            return msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, why: str) -> AuditInvalid:
        return AuditInvalid(
            f"the heads in {self.path} cannot be read: {why}",
            reason="heads.damaged",
            hint="find out who changed it; without it nothing is known of what was seen before",
        )

    def _write(self, origin: str, head: Head) -> None:
        kept = self._read()
        kept.heads[origin] = head.to_text()
        content = msgspec.json.format(msgspec.json.encode(kept, order="sorted")) + b"\n"
        beside = self.path.with_name(f"{self.path.name}.tmp")
        try:
            beside.unlink(missing_ok=True)
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the folder: of two who read and write, one would be forgotten."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _unwritable(self, error: OSError) -> SinkError:
        return SinkError(
            f"cannot keep the head in {self.path}: {error.strerror or error}",
            hint="choose a place that exists, has room and is yours to write",
        )


def _compare(last: Head | None, head: Head, proof: Sequence[bytes]) -> Seen:
    if last is None or last.size == 0:
        return "first"
    older, newer = sorted((last, head), key=lambda found: found.size)
    if older.size == 0:
        raise AuditInvalid(
            f"the log has no records any more; it had {last.size} when it was last seen",
            reason="proof.shrunk",
            hint="keep both heads: together they show that records were removed",
        )
    check_consistency(older.size, newer.size, older.root, newer.root, proof)
    if last.size == head.size:
        return "same"
    return "grown" if newer is head else "older"
