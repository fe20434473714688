"""Words and tables for the screen."""

from __future__ import annotations

import io
import json
import os
import pty
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.cli._output import (
    Progress,
    clip,
    count,
    escape_controls,
    field,
    json_line,
    offset,
    preview,
    rows,
    size,
    span,
    table_lines,
)
from reenact.cli.server.admin import USERS as COLUMNS
from tests.cli.samples import HOSTILE

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text())
def test_safe_text_is_printable(text: str) -> None:
    shown = escape_controls(text)
    assert shown.replace("\u00a0", "").replace("\u3000", "").isprintable()
    if text.isprintable():
        assert shown == text


@given(_VALUES)
def test_json_line_is_printable_ascii_and_the_same_value(value: object) -> None:
    line = json_line(value)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == json.loads(json.dumps(value))


@given(_VALUES, st.integers(3, 60))
def test_preview_is_the_beginning_of_the_json(value: object, limit: int) -> None:
    whole = escape_controls(json.dumps(value, ensure_ascii=False))
    shown = preview(value, limit)
    assert len(shown) <= limit
    if shown != whole:
        assert shown.endswith("...")
        assert whole.startswith(shown[:-3])


class _Endless(dict[str, str]):
    """Never ends when it is read to its end."""

    def items(self) -> Any:
        while True:
            yield "name", "value"


def test_preview_of_something_large_costs_little() -> None:
    assert preview(_Endless(), 24) == '{"name": "value", "na...'


@pytest.mark.parametrize(
    "text, width, shown",
    [
        ("short", 10, "short"),
        ("exactly ten", 11, "exactly ten"),
        ("longer than that", 10, "longer ..."),
        ("漢字漢字漢字", 9, "漢字漢..."),
        ("as long as it is", 0, "as long as it is"),
        ("tiny", 2, ".."),
    ],
)
def test_clip(text: str, width: int, shown: str) -> None:
    assert clip(text, width) == shown


def test_numbers_for_people() -> None:
    assert [size(number) for number in (0, 1023, 1024, 1_047_552, 2**20, 10**13)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "1.0 MiB",
        "9.1 TiB",
    ]
    assert [count(number, "event") for number in (0, 1, 1204)] == [
        "0 events",
        "1 event",
        "1,204 events",
    ]
    assert [offset(number) for number in (0, 12_345, 62_003, 3_723_456, -5)] == [
        "0.000",
        "12.345",
        "1:02.003",
        "1:02:03.456",
        "-0.005",
    ]
    assert [span(number) for number in (5, 62_003, 3_723_456)] == [
        "0.005 s",
        "1:02.003 min",
        "1:02:03.456 h",
    ]


def test_rows_line_up_also_with_wide_characters() -> None:
    lines = rows([("漢字", "1"), ("a", "1,000")], right=frozenset({1}))
    assert lines == ["漢字      1", "a     1,000"]
    assert rows([]) == []


ADMIN = {"id": "grt_1", "role": "platform admin"}
REPLAYER = {"id": "grt_2", "role": "replayer", "app": "shop", "environment": "staging"}
USERS: list[dict[str, Any]] = [
    {"id": "usr_1", "email": "ann@acme.example", "state": "active", "grants": [ADMIN, REPLAYER]},
    {"id": "usr_2", "email": "bob@acme.example", "state": "invited", "grants": []},
]


def test_grants_are_in_the_line_where_it_is_long_enough() -> None:
    for width in (0, 200):
        heading, ann, bob = table_lines(USERS, COLUMNS, width)
        assert heading.split() == ["user", "email", "state", "since", "grants"]
        assert ann.endswith("platform admin [grt_1], replayer (shop in staging) [grt_2]")
        assert bob.endswith("-")


def test_grants_are_below_the_line_where_it_is_not_and_none_is_cut() -> None:
    assert list(table_lines(USERS, COLUMNS, 60)) == [
        "user   email             state    since",
        "usr_1  ann@acme.example  active   -",
        "    platform admin [grt_1]",
        "    replayer (shop in staging) [grt_2]",
        "usr_2  bob@acme.example  invited  -",
    ]


@pytest.mark.parametrize("width", [25, 40, 80])
def test_lines_fit_and_nothing_in_them_is_obeyed(width: int) -> None:
    items = [{"a": HOSTILE * 3, "b": f"{HOSTILE}\n{HOSTILE}"}]
    lines = list(table_lines(items, (("a", field("a")), ("b", field("b"))), width))
    assert max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    progress = Progress(2_000, out=out)
    for number in range(2_000):
        progress.step(Counter(ok=number + 1))
    progress.end()
    (line,) = out.getvalue().splitlines()
    assert line.startswith("reenact: 2,000/2,000  ")
    assert line.endswith("/s  in 0 s  2,000 ok")


@pytest.mark.parametrize("width", [20, 80, 200])
def test_progress_fits_on_one_line_of_a_terminal(width: int) -> None:
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with open(theirs, "w", encoding="ascii") as out:
        progress = Progress(1, out=out)
        progress.step(Counter(diverged=1_000_000, failed=2_000_000))
        progress.end()
        said = os.read(ours, 4_096).decode()
    os.close(ours)
    line = said.removeprefix("\r\x1b[K").partition("\r\n")[0]
    assert 0 < len(line) < width
    assert ("[####" in line) == (width == 200)
