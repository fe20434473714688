"""An exported log: a folder, or a tar file with the same five files in it.

    manifest.json   whose log it is, and how much of it there should be
    key.pub         the verifier keys, each with the size of the log from which on it signs
    checkpoints     every signed head, in order, with an empty line between two
    leaves          the hash of every record in base64, one per line, 45 bytes each
    records.jsonl   every record as it was hashed, one per line

``leaves`` can be made from ``records.jsonl``; it is there so that a record that was changed can be
pointed at: when the heads vouch for all hashes, each hash vouches for one record.

What stands here is as it was found. Only :mod:`reenact.audit.verify` says whether it is true.
"""

from __future__ import annotations

import io
import tarfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from reenact.audit.keys import Key
from reenact.audit.spelling import strict_base64, strict_number
from reenact.errors import AuditInvalid, ValueRefused
from reenact.format.canonical import decode

__all__ = [
    "CHECKPOINTS",
    "FILES",
    "KEYS",
    "LEAF_LINE",
    "LEAVES",
    "MANIFEST",
    "RECORDS",
    "Bundle",
    "BundleFormat",
    "BundleManifest",
    "KeySpan",
    "leaf_line",
    "open_bundle",
    "read_leaves",
]

MANIFEST: Final = "manifest.json"
KEYS: Final = "key.pub"
CHECKPOINTS: Final = "checkpoints"
LEAVES: Final = "leaves"
RECORDS: Final = "records.jsonl"
FILES: Final = (MANIFEST, KEYS, CHECKPOINTS, LEAVES, RECORDS)

LEAF_LINE: Final = 45
_SMALL: Final = 1_000_000
_MAX_MEMBERS: Final = 64


class BundleFormat(msgspec.Struct, frozen=True):
    """Name and version; a reader refuses other names and later major versions."""

    name: Literal["reenact-audit"] = "reenact-audit"
    version: str = "1.0"


class BundleManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What the exporter says. It is not signed, and so it is compared, never trusted."""

    format: BundleFormat
    origin: str
    tenant: str
    size: int
    root: str
    heads: int
    exported_at: int


class KeySpan(msgspec.Struct, frozen=True):
    """``key`` signs the heads of size ``start`` and larger, up to the start of the next one."""

    start: int
    key: Key


class _Part(msgspec.Struct, frozen=True):
    """A file, or the part of a tar file that is one."""

    path: Path
    start: int
    size: int


class _Window(io.RawIOBase):
    """A part of a file, read as if it were a file of its own."""

    def __init__(self, part: _Part) -> None:
        super().__init__()
        self._file = part.path.open("rb", buffering=0)
        self._start, self._size, self._at = part.start, part.size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._file.seek(self._start + self._at)
        room = memoryview(buffer)[: max(0, self._size - self._at)]
        count = self._file.readinto(room) or 0
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class Bundle:
    """An export that can be read; each file as often as one likes, and from several places."""

    def __init__(self, path: Path, parts: dict[str, _Part]) -> None:
        self.path = path
        self._parts = parts
        self.manifest = _manifest(self._small(MANIFEST))
        self.keys = _spans(self._small(KEYS))

    def open(self, name: str) -> BinaryIO:
        """One of :data:`FILES`, from its beginning."""
        return io.BufferedReader(_Window(self._parts[name]), 1 << 16)

    def size(self, name: str) -> int:
        """Its size in bytes."""
        return self._parts[name].size

    def _small(self, name: str) -> bytes:
        if self.size(name) > _SMALL:
            raise _malformed(f"{name} has more than {_SMALL} bytes")
        with self.open(name) as file:
            return file.read()


def open_bundle(path: Path) -> Bundle:
    """Raises :class:`AuditInvalid` when ``path`` is not an export of which all parts are there."""
    try:
        parts = _folder(path) if path.is_dir() else _tar(path)
    except OSError as error:
        raise _malformed(f"{path} cannot be read: {error.strerror or error}") from None
    missing = [name for name in FILES if name not in parts]
    if missing:
        raise AuditInvalid(
            f"{path} is no whole export: {', '.join(missing)} is not there",
            reason="bundle.incomplete",
            hint="export again",
        )
    return Bundle(path, parts)


def _folder(path: Path) -> dict[str, _Part]:
    files = [path / name for name in FILES if (path / name).is_file()]
    return {file.name: _Part(file, 0, file.stat().st_size) for file in files}


def _tar(path: Path) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for count, member in enumerate(tar):
                name = member.name.removeprefix("./")
                if count >= _MAX_MEMBERS or name in parts:
                    raise _malformed(f"{path.name} has files twice, or too many")
                if name in FILES and member.isreg() and not member.issparse():
                    parts[name] = _Part(path, member.offset_data, member.size)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _malformed(f"{path} is no folder, and no whole tar file: {error}") from None
    return parts


def _manifest(data: bytes) -> BundleManifest:
    try:
        found = msgspec.convert(decode(data), BundleManifest)
    except (ValueRefused, msgspec.ValidationError) as error:
        raise _malformed(f"{MANIFEST}: {error}") from None
    if found.format.version.partition(".")[0] != BundleFormat().version.partition(".")[0]:
        raise AuditInvalid(
            f"{MANIFEST}: this export has a later format",
            reason="bundle.version",
            hint="upgrade reenact",
        )
    return found


def _spans(data: bytes) -> tuple[KeySpan, ...]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise _malformed(f"{KEYS} is not UTF-8") from None
    if lines.pop():
        raise _malformed(f"{KEYS}: its last line does not end")
    spans = tuple(map(_span, lines))
    starts = [span.start for span in spans]
    if not spans or starts[0] != 0 or sorted(set(starts)) != starts:
        raise _malformed(f"{KEYS} does not list keys from size 0 on, in order")
    return spans


def _span(line: str) -> KeySpan:
    start, _, text = line.partition(" ")
    number = strict_number(start)
    if number is None:
        raise _malformed(f"{KEYS}: a line is a size, a space and a verifier key")
    return KeySpan(number, Key.from_text(text))


def leaf_line(leaf: bytes) -> bytes:
    """The line of a leaf hash."""
    return b64encode(leaf) + b"\n"


def read_leaves(bundle: Bundle) -> Iterator[bytes]:
    """All leaf hashes in order. Raises :class:`AuditInvalid` at the first that is none."""
    with bundle.open(LEAVES) as file:
        count = 0
        while line := file.read(LEAF_LINE):
            leaf = strict_base64(line[:-1].decode("latin-1"))
            if leaf is None or leaf_line(leaf) != line or len(line) != LEAF_LINE:
                raise AuditInvalid(
                    f"{LEAVES}: line {count + 1} is not a hash",
                    reason="leaves.malformed",
                    seq=count,
                )
            yield leaf
            count += 1


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not an audit export: {why}", reason="bundle.malformed")
