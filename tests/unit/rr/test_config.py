"""What a cassette is opened with."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from reenact.policy.model import Budgets
from reenact.rr.config import Config, read_cfg
from reenact.rr.entries import CFG_INVALID, CFG_VERSION
from tests.unit.rr.cassettes import raises_number

MODES = ("off", "record", "replay", "record_missing", "rewrite")


def document(
    path: bytes = b"smoke",
    *,
    magic: bytes = b"X7RC",
    version: int = 1,
    zeros: tuple[int, int] = (0, 0),
    mode: int = 2,
    match: int = 0,
    length: int | None = None,
) -> bytes:
    """A cfg document, put together from the offsets of the X07 source."""
    made = bytearray(40)
    made[0:4] = magic
    struct.pack_into("<HH", made, 4, version, zeros[0])
    made[8], made[9] = mode, match
    struct.pack_into("<H", made, 10, zeros[1])
    struct.pack_into("<Q", made, 12, 1 << 40)
    struct.pack_into("<IIII", made, 20, 100, 1024, 2048, 256)
    struct.pack_into("<I", made, 36, len(path) if length is None else length)
    return bytes(made) + path


def test_a_document_is_read_at_its_offsets() -> None:
    assert read_cfg(document("a/é".encode(), mode=3, match=1)) == Config(
        path="a/é",
        mode="record_missing",
        match_mode="transcript",
        budgets=Budgets(
            cassette_bytes=1 << 40,
            entries=100,
            request_bytes=1024,
            response_bytes=2048,
            key_bytes=256,
        ),
    )


def test_a_mapping_says_the_same() -> None:
    assert read_cfg(
        {
            "version": 1,
            "path": "smoke",
            "mode": 2,
            "match_mode": 0,
            "max_cassette_bytes": 1 << 40,
            "max_entries": 100,
            "max_req_bytes": 1024,
            "max_resp_bytes": 2048,
            "max_key_bytes": 256,
        }
    ) == read_cfg(memoryview(document()))


def test_what_a_mapping_leaves_out_is_not_decided_here() -> None:
    assert read_cfg({"path": "smoke"}) == Config(path="smoke")


@pytest.mark.parametrize("number, mode", list(enumerate(MODES)))
def test_modes_have_names_and_numbers(number: int, mode: str) -> None:
    for said in (number, mode, f"{mode}_v1"):
        assert read_cfg({"path": "smoke", "mode": said}).mode == mode
    assert read_cfg(document(mode=number)).mode == mode


@pytest.mark.parametrize("number, match", [(0, "lookup"), (1, "transcript")])
def test_match_modes_have_names_and_numbers(number: int, match: str) -> None:
    for said in (number, match, f"{match}_v1"):
        assert read_cfg({"path": "smoke", "match_mode": said}).match_mode == match


@pytest.mark.parametrize(
    "cfg",
    [
        b"",
        b"X7RC",
        document()[:39],
        document(magic=b"X7RD"),
        document(zeros=(1, 0)),
        document(zeros=(0, 1)),
        document(mode=5),
        document(match=2),
        document() + b"x",
        document(length=4),
        document(length=6),
        document(b"\xff"),
    ],
)
def test_a_document_that_makes_no_sense(cfg: bytes) -> None:
    with raises_number(CFG_INVALID):
        read_cfg(cfg)


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "relay"},
        {"mode": 5},
        {"mode": True},
        {"mode": None},
        {"match_mode": "lane"},
        {"match_mode": 2},
        {"match_mode": True},
        {"match_mode": []},
        {"path": None},
        {"path": "\ud800"},
        {"max_entries": -1},
        {"max_entries": 1.0},
        {"max_entries": True},
        {"max_key_bytes": "10"},
        {"append": 1, "mode": "record"},
        {"append": True},
        {"append": True, "mode": "rewrite"},
        {"overwrite": True, "mode": "replay"},
        {"append": True, "overwrite": True, "mode": "record"},
    ],
)
def test_a_mapping_that_makes_no_sense(change: Mapping[str, Any]) -> None:
    with raises_number(CFG_INVALID):
        read_cfg({"path": "smoke", **change})


def test_a_mapping_without_a_path() -> None:
    with raises_number(CFG_INVALID) as caught:
        read_cfg({"mode": "replay"})
    assert "no path" in caught.value.message


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with raises_number(CFG_INVALID) as caught:
        read_cfg({"path": "smoke", "max_request_bytes": 3})
    assert caught.value.hint == "did you mean max_req_bytes?"


def test_a_cfg_is_bytes_or_a_mapping() -> None:
    with raises_number(CFG_INVALID):
        read_cfg("smoke")  # type: ignore[arg-type]


@pytest.mark.parametrize("cfg", [document(version=2), {"path": "smoke", "version": 2}])
def test_another_version_is_told_apart(cfg: Any) -> None:
    with raises_number(CFG_VERSION) as caught:
        read_cfg(cfg)
    assert "version 2" in caught.value.message
