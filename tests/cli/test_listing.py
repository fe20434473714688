"""Tables of what a server lists, on screens of any width."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.cli._output import field, table_lines
from reenact.cli.server.admin import _USERS
from tests.cli.samples import HOSTILE

ADMIN = {"id": "grt_1", "role": "platform admin"}
REPLAYER = {"id": "grt_2", "role": "replayer", "app": "shop", "environment": "staging"}
USERS: list[dict[str, Any]] = [
    {"id": "usr_1", "email": "ann@acme.example", "state": "active", "grants": [ADMIN, REPLAYER]},
    {"id": "usr_2", "email": "bob@acme.example", "state": "invited", "grants": []},
]


def test_grants_are_in_the_line_where_it_is_long_enough() -> None:
    for width in (0, 200):
        heading, ann, bob = table_lines(USERS, _USERS, width)
        assert heading.split() == ["user", "email", "state", "since", "grants"]
        assert ann.endswith("platform admin [grt_1], replayer (shop in staging) [grt_2]")
        assert bob.endswith("-")


def test_grants_are_below_the_line_where_it_is_not_and_none_is_cut() -> None:
    assert list(table_lines(USERS, _USERS, 60)) == [
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
