"""What a run says of its cassettes at the end."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.pytest_plugin.showing import _changed


def test_an_update_says_what_has_changed() -> None:
    gone: dict[str, Any] = {"detail": "Nothing asked for GET."}
    other = {"detail": "GET differs at $.request.url."}
    report = {"kept": 3, "changed": [other], "added": [], "dropped": [gone, gone]}
    assert _changed(report) == [
        "3 kept, 1 changed, 0 added, 2 dropped",
        "changed: GET differs at $.request.url.",
        "dropped: Nothing asked for GET.",
        "dropped: Nothing asked for GET.",
    ]


@pytest.mark.parametrize(
    "report",
    [{}, {"kept": 3, "changed": [], "added": [], "dropped": []}],
    ids=["no update", "the same"],
)
def test_where_nothing_has_changed_nothing_is_said(report: dict[str, Any]) -> None:
    assert _changed(report) == []
