"""The numbers are a promise."""

from __future__ import annotations

import re
from pathlib import Path

from reenact import rr
from reenact.rr import entries

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "low-level.md"
PROMISED = {
    "CFG_INVALID": 2000,
    "CFG_VERSION": 2001,
    "OPEN_FAILED": 2002,
    "OVER_CASSETTE_BYTES": 2003,
    "OVER_ENTRIES": 2004,
    "OVER_REQ_BYTES": 2005,
    "OVER_RESP_BYTES": 2006,
    "OVER_KEY_BYTES": 2007,
    "ENTRY_INVALID": 2008,
    "MISS": 2009,
    "KIND_MISMATCH": 2010,
    "OP_MISMATCH": 2011,
    "MODE_FORBIDS_NEXT": 2012,
    "MODE_FORBIDS_APPEND": 2013,
    "TRUNCATED": 2014,
    "STREAM_CFG_INVALID": 1,
    "STREAM_OVER_IN_BYTES": 2,
    "STREAM_OVER_OUT_BYTES": 3,
    "STREAM_OVER_ITEMS": 4,
}


def test_the_numbers_are_those_of_the_table() -> None:
    values = {name: getattr(entries, name) for name in entries.__all__}
    assert {name: value for name, value in values.items() if type(value) is int} == PROMISED


def test_every_number_is_a_public_name() -> None:
    assert {name: getattr(rr, name) for name in rr.__all__ if name.isupper()} == PROMISED


def test_the_guide_lists_every_number() -> None:
    listed = re.findall(r"^\| (\d+) \| `(\w+)` \|", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert {name: int(number) for number, name in listed} == PROMISED
