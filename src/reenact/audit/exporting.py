"""Writing an export: in one pass over the records, the same bytes for the same log.

The writer does not judge: it exports what the store has, so that verifying the export shows what
is wrong with the store.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from reenact.audit.bundle import (
    CHECKPOINTS,
    FILES,
    KEYS,
    LEAVES,
    MANIFEST,
    RECORDS,
    BundleFormat,
    BundleManifest,
    KeySpan,
    leaf_line,
)
from reenact.audit.checkpoint import Head, tenant_of
from reenact.audit.merkle import Frontier, hash_leaf
from reenact.errors import AuditInvalid, SinkError

__all__ = ["export_folder", "export_tar"]


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
    """The same as one tar file. Needs room for twice its size for a moment: a tar file says the
    length of a part before the part."""
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
