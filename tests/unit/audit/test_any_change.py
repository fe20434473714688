"""Whatever is changed in an export without the key, it is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.audit.verify import verify_export
from reenact.errors import AuditInvalid
from tests.unit.audit.samples import ONE, TWO, a_log, a_record

SIGNED = ("key.pub", "checkpoints", "leaves", "records.jsonl")
"""All but the manifest, in which the time of the export is nobody's to vouch for."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = a_log(3)
    kept.rotate(TWO)
    kept.sign()
    kept.add(a_record())
    kept.sign()
    return kept.export(tmp_path_factory.mktemp("log") / "export")


def noticed(path: Path, content: bytes) -> bool:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        return not verify_export(path.parent, [ONE.key]).ok
    except AuditInvalid:
        return True
    finally:
        path.write_bytes(before)


def test_the_export_itself_is_fine(folder: Path) -> None:
    assert verify_export(folder, [ONE.key]).ok


@given(st.sampled_from(SIGNED), st.integers(0, 10**6), st.integers(0, 7))
def test_no_bit_can_be_flipped(folder: Path, name: str, where: int, bit: int) -> None:
    content = bytearray((folder / name).read_bytes())
    content[where % len(content)] ^= 1 << bit
    assert noticed(folder / name, bytes(content))


@given(st.sampled_from(SIGNED), st.integers(0, 10**6))
@example("key.pub", -1)
@example("checkpoints", -1)
@example("records.jsonl", -1)
def test_nothing_can_be_cut_off(folder: Path, name: str, where: int) -> None:
    content = (folder / name).read_bytes()
    assert noticed(folder / name, content[: where % len(content)])


@given(st.sampled_from(SIGNED), st.data())
def test_no_lines_can_be_taken_out_or_doubled(folder: Path, name: str, data: st.DataObject) -> None:
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    assert noticed(folder / name, b"".join([*lines[:start], *lines[end:]]))
    if name != "checkpoints":  # a head may be there twice, but then the manifest counts one more
        assert noticed(folder / name, b"".join([*lines[:end], *lines[start:]]))
