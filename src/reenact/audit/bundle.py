"""Exported audit logs: a folder, or a tar file with the same five files.

    manifest.json   tenant of the log and its expected size
    key.pub         verifier keys, each with the log size from which it signs
    checkpoints     every signed head in order, separated by empty lines
    leaves          base64 hash of every record, one per line, 45 bytes each
    records.jsonl   every record as it was hashed, one per line

``leaves`` can be computed from ``records.jsonl``. It is included so that a changed record can be
located: the heads prove all hashes, and each hash proves one record.

Nothing is verified here; see :mod:`reenact.audit.verify`. An export is written in one pass, and the
same log results in the same bytes. The writer does not check the records either, so that verifying an
export reveals what is wrong with the database.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, Final, Literal

import msgspec

from reenact.audit.keys import Key, strict_base64, strict_number
from reenact.audit.log import Head, tenant_of
from reenact.audit.merkle import Frontier, hash_leaf
from reenact.errors import AuditInvalid, SinkError, ValueRefused
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
    "export_folder",
    "export_tar",
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
    """Statement of the exporter. It is not signed, so it is compared but never trusted."""

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
        """Open the file ``name``, one of :data:`FILES`, at its beginning."""
        return io.BufferedReader(_Window(self._parts[name]), 1 << 16)

    def size(self, name: str) -> int:
        """Return the size of the file ``name`` in bytes."""
        return self._parts[name].size

    def _small(self, name: str) -> bytes:
        if self.size(name) > _SMALL:
            raise _malformed(f"{name} has more than {_SMALL} bytes")
        with self.open(name) as file:
            return file.read()


def open_bundle(path: Path) -> Bundle:
    """Open the export at ``path``. Raises :class:`AuditInvalid` if it is not a complete export."""
    try:
        parts = _folder(path) if path.is_dir() else _tar(path)
    except OSError as error:
        raise _malformed(f"{path} cannot be read: {error.strerror or error}") from None
    missing = [name for name in FILES if name not in parts]
    if missing:
        raise AuditInvalid(
            f"{path} is not a complete export; missing: {', '.join(missing)}",
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
                    raise _malformed(f"{path.name} contains duplicate files or too many files")
                if name in FILES and member.isreg() and not member.issparse():
                    parts[name] = _Part(path, member.offset_data, member.size)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _malformed(f"{path} is neither a folder nor a complete tar file: {error}") from None
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


def export_folder(
    folder: Path,
    origin: str,
    records: Iterable[bytes],
    heads: Iterable[Head],
    keys: Sequence[KeySpan],
    exported_at: int,
    leaves: Iterable[bytes] | None = None,
) -> BundleManifest:
    """Write the log ``origin`` to ``folder``, which must not exist and is there whole or not at all.

    ``records`` are the lines of :class:`~reenact.audit.log.Appended`, from the first on; ``heads``
    all signed heads, from the first on; ``exported_at`` is in milliseconds. ``leaves`` are the
    hashes that the store kept when it took the records in: with them it is seen which record is
    not what it was. Without them they are made of ``records``.
    """
    beside = folder.with_name(f"{folder.name}.tmp")
    _check_free(folder)
    try:
        beside.mkdir()
        try:
            manifest = _write(beside, origin, records, heads, keys, exported_at, leaves)
            beside.rename(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return manifest


def export_tar(
    path: Path,
    origin: str,
    records: Iterable[bytes],
    heads: Iterable[Head],
    keys: Sequence[KeySpan],
    exported_at: int,
    leaves: Iterable[bytes] | None = None,
) -> BundleManifest:
    """Write an export as one tar file.

    It temporarily needs twice the space, because a tar file states the length of a member in front
    of it.
    """
    _check_free(path)
    parts = path.with_name(f"{path.name}.parts")
    beside = path.with_name(f"{path.name}.tmp")
    manifest = export_folder(parts, origin, records, heads, keys, exported_at, leaves)
    try:
        with beside.open("wb") as file:
            _pack(parts, file)
            _sync(file)
        beside.rename(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return manifest


def _write(
    folder: Path,
    origin: str,
    records: Iterable[bytes],
    heads: Iterable[Head],
    keys: Sequence[KeySpan],
    exported_at: int,
    leaves: Iterable[bytes] | None,
) -> BundleManifest:
    frontier = _write_records(folder, records, leaves)
    manifest = BundleManifest(
        format=BundleFormat(),
        origin=origin,
        tenant=tenant_of(origin),
        size=frontier.size,
        root=b64encode(frontier.root()).decode(),
        heads=_write_heads(folder, heads),
        exported_at=exported_at,
    )
    lines = (f"{span.start} {span.key.to_text()}\n" for span in keys)
    _write_small(folder / KEYS, "".join(lines).encode())
    text = json.dumps(msgspec.to_builtins(manifest), indent=2, ensure_ascii=False)
    _write_small(folder / MANIFEST, text.encode() + b"\n")
    return manifest


def _write_records(
    folder: Path, records: Iterable[bytes], known: Iterable[bytes] | None
) -> Frontier:
    with (folder / RECORDS).open("xb") as lines, (folder / LEAVES).open("xb") as leaves:
        tree = _Leaves(leaves)
        for number, record in enumerate(records):
            if b"\n" in record:
                raise AuditInvalid(
                    f"record {number} is more than one line", reason="record.malformed"
                )
            lines.write(record + b"\n")
            if known is None:
                tree.add(hash_leaf(record))
        for leaf in known or ():
            tree.add(leaf)
        _sync(lines)
        _sync(leaves)
    return tree.frontier


class _Leaves:
    """Hashes that are written, and the tree over them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.frontier = Frontier()
        self._file = file

    def add(self, leaf: bytes) -> None:
        self.frontier, _ = self.frontier.append(leaf)
        self._file.write(leaf_line(leaf))


def _write_heads(folder: Path, heads: Iterable[Head]) -> int:
    count = 0
    with (folder / CHECKPOINTS).open("xb") as file:
        for head in heads:
            file.write((b"\n" if count else b"") + head.to_text().encode())
            count += 1
        _sync(file)
    return count


def _write_small(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        _sync(file)


def _pack(folder: Path, file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in FILES:
            member = tarfile.TarInfo(name)
            member.size = (folder / name).stat().st_size
            with (folder / name).open("rb") as part:
                tar.addfile(member, part)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _check_free(path: Path) -> None:
    if path.exists():
        raise SinkError(f"{path} exists already", hint="choose another name")


def _unwritable(path: Path, error: OSError) -> SinkError:
    return SinkError(
        f"cannot write the export {path}: {error.strerror or error}",
        hint="choose a place that exists, has room and is yours to write",
    )
