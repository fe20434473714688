"""One portable file: a capture directory or tape as a compressed tar, verified on both sides.

The standard library's xz, so that a recipient needs nothing but Python (or ``tar -xJf``); gzip for the
recordings of an app's requests. Sealed values stay at home; so does what recovery set aside.
"""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import sys
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Final

from reenact.errors import RecordingDamaged, RecordingExists, RecordingMissing, SinkError
from reenact.store.files import (
    BLOBS,
    EVENTS,
    MANIFEST,
    SIGNATURE,
    create_private,
    make_private_folder,
    open_regular,
    sync_file,
    unwritable,
)
from reenact.store.payload_decoder import ReadLimits
from reenact.store.reader import tape_blobs
from reenact.store.sign import signature_path
from reenact.store.verify import Report, verify

__all__ = ["MOST", "pack", "pack_contents", "packed_members", "unpack"]

MOST = 16 << 30
"""Default limit of the bytes that ``unpack`` writes."""

_TAPE = "tape.jsonl"
_ALLOWED = frozenset({MANIFEST, EVENTS, SIGNATURE, _TAPE, f"{_TAPE}.sig"})
_BLOB_FOLDERS = (BLOBS, f"{_TAPE}.blobs")


def pack(recording: Path, target: Path, *, preset: int = 6) -> Report:
    """Verify ``recording``, write it to ``target``, and verify what was written.

    ``preset`` is how hard xz tries, from 0 to 9: a low one takes less time and more room.
    """
    report = verify(recording)
    if target.exists():
        raise RecordingExists(f"{target} already exists", hint="choose another name")
    beside = target.with_name(f"{target.name}.tmp")
    try:
        with (
            open(create_private(beside), "wb") as written,
            lzma.open(written, "wb", preset=preset) as out,
            tarfile.open(fileobj=out, mode="w") as tar,
        ):
            for name, file in _members(recording):
                _add(tar, name, file)
        _check_packed(beside, report)
        sync_file(beside)
        beside.replace(target)
    except OSError as error:
        raise unwritable(target, error) from None
    finally:
        beside.unlink(missing_ok=True)
    return report


_BLOCK: Final = 512
_PIECE: Final = 1 << 20
_REGULAR: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
_EXTENSIONS: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE)
_LARGEST_EXTENSION: Final = 4_096
_GZIP: Final = b"\x1f\x8b"


def pack_contents(manifest: bytes, events: bytes) -> bytes:
    """A capture directory that is in memory, without blobs, as one packed file.

    It is compressed with gzip: an app packs one recording per request, and setting up xz takes
    milliseconds.
    """
    parts = [*_member(MANIFEST, manifest), *_member(EVENTS, events), bytes(2 * _BLOCK)]
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


def _member(name: str, content: bytes) -> tuple[bytes, bytes, bytes]:
    return _header(name, len(content)), content, bytes(-len(content) % _BLOCK)


@lru_cache(maxsize=1024)
def _header(name: str, size: int) -> bytes:
    """Most recordings of an app have one of a few sizes."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    return entry.tobuf(tarfile.USTAR_FORMAT)


def _members(recording: Path) -> Iterator[tuple[str, Path]]:
    if recording.is_dir():
        yield MANIFEST, recording / MANIFEST
        yield EVENTS, recording / EVENTS
        folder, signature = recording / BLOBS, SIGNATURE
        files = folder.rglob("*") if folder.is_dir() else iter(())
    else:
        yield _TAPE, recording
        folder, signature = tape_blobs(recording).folder, f"{_TAPE}.sig"
        files = tape_blobs(recording).files()
    if signature_path(recording).exists():
        yield signature, signature_path(recording)
    blobs = BLOBS if recording.is_dir() else f"{_TAPE}.blobs"
    for file in sorted(files):
        if file.is_file():
            yield f"{blobs}/{file.relative_to(folder).as_posix()}", file


def _add(tar: tarfile.TarFile, name: str, file: Path) -> None:
    """Names and sizes only: the same recording always packs to the same bytes."""
    entry = tarfile.TarInfo(name)
    entry.size = file.stat().st_size
    entry.mode = 0o644
    with open_regular(file) as content:
        tar.addfile(entry, content)


def _check_packed(packed: Path, report: Report) -> None:
    """Unpack what was just written and compare, before it gets its name."""
    trial = packed.with_name(f"{packed.name}.check")
    shutil.rmtree(trial, ignore_errors=True)
    try:
        again = _extract(packed, trial, most=sys.maxsize)
        if again.manifest != report.manifest:
            raise SinkError(f"{packed} does not hold what was packed", hint="try again")
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def unpack(
    packed: Path, target: Path, *, most: int = MOST, limits: ReadLimits | None = None
) -> Report:
    """Extract into ``target`` (a directory, or a file for a tape) and verify it there.

    ``most`` is how many bytes it may unpack to: a small file can hold a very large one.
    ``limits`` as for :func:`open_recording`.
    """
    if not packed.is_file():
        raise RecordingMissing(f"no packed recording found at {packed}", hint="check the path")
    if target.exists():
        raise RecordingExists(f"{target} already exists", hint="choose another name")
    beside = target.with_name(f"{target.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        _extract(packed, beside, most, limits)
        _publish(beside, target)
    except OSError as error:
        raise unwritable(target, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return verify(target, limits=limits)


def _publish(beside: Path, target: Path) -> None:
    if not (beside / _TAPE).exists():
        beside.rename(target)
        return
    for suffix in (".blobs", ".sig", ""):  # the tape itself last: it makes the rest valid
        file = beside / f"{_TAPE}{suffix}"
        if file.exists():
            file.rename(target.with_name(f"{target.name}{suffix}"))


def _extract(packed: Path, folder: Path, most: int, limits: ReadLimits | None = None) -> Report:
    """Write out the members, none of which may stand anywhere else, and verify the result."""
    make_private_folder(folder, exist_ok=False)
    try:
        with packed.open("rb") as file:
            for entry, content in packed_members(file):
                most -= entry.size
                if most < 0:
                    raise _too_large(packed)
                _write_member(entry, content, folder)
    except (tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise RecordingDamaged(
            f"{packed} is not a packed recording, or was cut short: {error}",
            place=f"file {packed.name}",
            hint="get another copy",
        ) from None
    tape = folder / _TAPE
    return verify(tape if tape.exists() else folder, limits=limits)


def packed_members(file: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    """Yield the members of a packed recording, each with its content in pieces.

    Small extension headers, for example with times, are skipped. Large ones are yielded as members,
    which the caller refuses, because :mod:`tarfile` would read them into memory independent of
    their size. Raises :class:`tarfile.TarError`, :class:`EOFError` and the errors of gzip and xz
    for damaged data.
    """
    is_gzip = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    with gzip.open(file, "rb") if is_gzip else lzma.open(file, "rb") as stream:
        while (block := stream.read(_BLOCK)) and any(block):
            entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if entry.size < 0:
                raise tarfile.ReadError("a member has a negative size")
            content = _content(stream, entry.size)
            if entry.type not in _EXTENSIONS or entry.size > _LARGEST_EXTENSION:
                yield entry, content
            deque(content, maxlen=0)
            stream.read(-entry.size % _BLOCK)


def _content(stream: gzip.GzipFile | lzma.LZMAFile, left: int) -> Iterator[bytes]:
    while left:
        piece = stream.read(min(left, _PIECE))
        if not piece:
            raise EOFError("a member was cut short")
        left -= len(piece)
        yield piece


def _too_large(packed: Path) -> SinkError:
    return SinkError(
        f"{packed} unpacks to more than is allowed",
        hint="if you trust it, allow more: reenact unpack --most GIB",
    )


def _write_member(entry: tarfile.TarInfo, content: Iterator[bytes], folder: Path) -> None:
    parts = PurePosixPath(entry.name).parts
    is_blob = len(parts) == 3 and parts[0] in _BLOB_FOLDERS and ".." not in parts
    if entry.type not in _REGULAR or not (entry.name in _ALLOWED or is_blob):
        raise RecordingDamaged(
            f"the packed file holds {entry.name!r}, which no recording has",
            place=f"member {entry.name!r}",
            hint="do not trust this file",
        )
    target = folder.joinpath(*parts)
    if target.exists():
        raise RecordingDamaged(
            f"the packed file holds {entry.name!r} twice",
            place=f"member {entry.name!r}",
            hint="do not trust this file",
        )
    for count in range(1, len(parts)):
        make_private_folder(folder.joinpath(*parts[:count]))
    with open(create_private(target, os.O_EXCL), "wb") as out:
        out.writelines(content)
