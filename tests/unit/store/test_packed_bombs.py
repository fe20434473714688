"""Packed files whose headers are larger than all that a recording holds."""

from __future__ import annotations

import io
import lzma
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from reenact.errors import RecordingDamaged
from reenact.store.pack import unpack
from tests.integration.small import read, write_small

SIZE = 96 << 20


def header_bomb(kind: bytes) -> bytes:
    """A tar that starts with an extension header of ``SIZE`` bytes."""
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, SIZE
    out = io.BytesIO()
    with lzma.open(out, "wb", preset=0) as stream:
        stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        stream.write(bytes(SIZE))
    return out.getvalue()


@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
def test_large_extension_header_is_refused_without_being_read(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "packed").write_bytes(header_bomb(kind))
    tracemalloc.start()
    try:
        with pytest.raises(RecordingDamaged, match="which no recording has"):
            unpack(tmp_path / "packed", tmp_path / "run")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < SIZE // 4


def test_member_of_negative_size_is_refused(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("events.jsonl").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "packed").write_bytes(lzma.compress(bytes(header)))
    with pytest.raises(RecordingDamaged, match="negative size"):
        unpack(tmp_path / "packed", tmp_path / "run")


def test_recording_that_tar_has_packed_is_unpacked(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    with lzma.open(tmp_path / "packed", "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
        for file in sorted((tmp_path / "run").rglob("*")):
            if file.is_file():
                tar.add(file, file.relative_to(tmp_path / "run").as_posix())
    unpack(tmp_path / "packed", tmp_path / "again")
    assert read(tmp_path / "again") == read(tmp_path / "run")
