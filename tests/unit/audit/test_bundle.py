"""The files of an export, as a folder and as a tar file."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reenact.audit.bundle import FILES, export_folder, export_tar, open_bundle
from reenact.audit.verify import verify_export
from reenact.errors import AuditInvalid, SinkError
from tests.unit.audit.samples import ONE, ORIGIN, a_log


def as_tar(path: Path, count: int = 7) -> Path:
    kept = a_log(count, each=3)
    export_tar(path, ORIGIN, kept.lines, kept.heads, kept.keys, 5)
    return path


def test_a_folder_has_five_files_and_no_more(tmp_path: Path) -> None:
    kept = a_log(7, each=3)
    folder = kept.export(tmp_path / "export")
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]
    assert (folder / "records.jsonl").read_bytes() == b"".join(x + b"\n" for x in kept.lines)
    assert (folder / "key.pub").read_text(encoding="utf-8") == f"0 {ONE.key.to_text()}\n"
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["format"] == {"name": "reenact-audit", "version": "1.0"}
    assert (manifest["size"], manifest["heads"]) == (7, 3)


def test_a_tar_file_verifies_like_the_folder(tmp_path: Path) -> None:
    path = as_tar(tmp_path / "export.tar")
    report = verify_export(path, [ONE.key])
    assert report.ok
    assert (report.size, report.heads) == (7, 3)
    assert [found.name for found in tmp_path.iterdir()] == ["export.tar"]


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = as_tar(tmp_path / "one.tar"), as_tar(tmp_path / "two.tar")
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == list(FILES)
    assert {(member.mtime, member.uid, member.mode) for member in members} == {(0, 0, 0o644)}


def test_a_tar_file_that_another_program_packed_will_do(tmp_path: Path) -> None:
    folder = a_log(4).export(tmp_path / "export")
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(folder, arcname=".")
    assert verify_export(tmp_path / "x.tar", [ONE.key]).ok


def repack(source: Path, change: Callable[[dict[str, bytes]], list[tuple[str, bytes]]]) -> None:
    with tarfile.open(source) as tar:
        parts = {name: tar.extractfile(name).read() for name in FILES}  # type: ignore[union-attr]
    with tarfile.open(source, "w") as tar:
        for name, content in change(parts):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda parts: [*parts.items(), ("leaves", b"")], "duplicate files"),
        (lambda parts: [*parts.items(), *((f"x{n}", b"") for n in range(70))], "too many"),
        (lambda parts: list(parts.items())[1:], "missing: manifest.json"),
        (
            lambda parts: [(f"a/{name}", data) for name, data in parts.items()],
            "not a complete export",
        ),
        (lambda parts: list({**parts, "manifest.json": b"x" * 1_000_001}.items()), "more than"),
        (lambda parts: list({**parts, "manifest.json": b"{}"}.items()), "manifest.json"),
        (lambda parts: list({**parts, "manifest.json": b'{"a":1,"a":1}'}.items()), "twice"),
        (
            lambda parts: list(
                {**parts, "manifest.json": parts["manifest.json"].replace(b"1.0", b"2.0")}.items()
            ),
            "later format",
        ),
        (lambda parts: list({**parts, "key.pub": b""}.items()), "key.pub"),
        (lambda parts: list({**parts, "key.pub": b"\xff"}.items()), "UTF-8"),
        (lambda parts: list({**parts, "key.pub": b"x y\n"}.items()), "a size, a space"),
        (lambda parts: list({**parts, "key.pub": b"0 x+y+z\n"}.items()), "not a key"),
        (lambda parts: list({**parts, "key.pub": b"1" + parts["key.pub"][1:]}.items()), "size 0"),
        (lambda parts: list({**parts, "key.pub": parts["key.pub"] * 2}.items()), "in order"),
    ],
    ids=range(14),
)
def test_a_container_that_is_not_exactly_an_export_is_refused(
    change: Callable[[dict[str, bytes]], list[tuple[str, bytes]]], says: str, tmp_path: Path
) -> None:
    path = as_tar(tmp_path / "export.tar")
    repack(path, change)
    with pytest.raises(AuditInvalid, match=says):
        open_bundle(path)


def test_links_and_torn_tar_files_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name in FILES:
            member = tarfile.TarInfo(name)
            member.type = tarfile.SYMTYPE
            member.linkname = "/etc/hostname"
            tar.addfile(member)
    with pytest.raises(AuditInvalid, match="not a complete export"):
        open_bundle(tmp_path / "x.tar")
    path = as_tar(tmp_path / "y.tar")
    data = path.read_bytes()
    for length in (0, 100, 700, 5000, data.index(b'"seq":4')):
        path.write_bytes(data[:length])
        with pytest.raises(AuditInvalid) as caught:
            open_bundle(path)
        assert caught.value.reason in {"bundle.malformed", "bundle.incomplete"}


def test_an_export_does_not_overwrite(tmp_path: Path) -> None:
    folder = a_log(1).export(tmp_path / "export")
    before = hashlib.sha256((folder / "records.jsonl").read_bytes()).digest()
    with pytest.raises(SinkError, match="exists already"):
        a_log(2).export(folder)
    with pytest.raises(SinkError, match="exists already"):
        as_tar(folder)
    assert hashlib.sha256((folder / "records.jsonl").read_bytes()).digest() == before
    with pytest.raises(SinkError, match="cannot write the export"):
        a_log(1).export(tmp_path / "nowhere" / "export")


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def records() -> Iterator[bytes]:
        yield b"{}"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        export_folder(tmp_path / "export", ORIGIN, records(), [], [], 5)
    with pytest.raises(ZeroDivisionError):
        export_tar(tmp_path / "export.tar", ORIGIN, records(), [], [], 5)
    with pytest.raises(AuditInvalid, match="more than one line"):
        export_folder(tmp_path / "export", ORIGIN, [b"a\nb"], [], [], 5)
    assert list(tmp_path.iterdir()) == []
