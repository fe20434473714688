"""The settings of vcrpy in our words, and a warning for each that means nothing here."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reenact.pytest_plugin.vcr_translation import translate_settings

BODY = ("$.request.body", "$.request.type")


class Config:
    def __init__(self) -> None:
        self.stash = pytest.Stash()


class Item:
    """As much of a test as is asked for."""

    def __init__(self) -> None:
        self.config = Config()
        self.said: list[str] = []

    def warn(self, warning: Warning) -> None:
        self.said.append(str(warning).partition(" is not honoured")[0])


def _translated(*, writes: bool = False, **config: Any) -> tuple[Any, list[str]]:
    item: Any = Item()
    found = translate_settings(item, config, writes=writes)
    translate_settings(item, config, writes=writes)  # what was said is not said again
    return found, item.said


def test_bodies_do_not_count_unless_they_are_named() -> None:
    found, said = _translated()
    assert (found.ignore.paths, found.ignore.query, found.pass_hosts, said) == (BODY, (), (), [])
    for name in ("body", "raw_body"):
        found, said = _translated(match_on=["method", "uri", name])
        assert (found.ignore.paths, said) == ((), [])


@pytest.mark.parametrize(
    "match_on,paths,said",
    [
        (["uri"], (*BODY, "$.op", "$.request.method"), []),
        (["method"], (*BODY, "$.request.url"), []),
        (["method", "path"], BODY, ["match_on without host, port, query, scheme"]),
        (["method", "uri", "headers"], BODY, ["match_on headers"]),
        (["method", "uri", "mine"], BODY, ["match_on mine"]),
    ],
)
def test_what_match_on_leaves_out(
    match_on: list[str], paths: tuple[str, ...], said: list[str]
) -> None:
    found, warnings = _translated(match_on=match_on)
    assert (found.ignore.paths, warnings) == (paths, said)


def test_filters_do_not_count_and_unknown_names_are_said() -> None:
    found, said = _translated(
        writes=True,
        match_on=["method", "uri", "body"],
        filter_headers=["Authorization", ("x-tenant", "DUMMY"), "User-Agent"],
        filter_query_parameters=["api_key", ("when", None)],
        filter_post_data_parameters=["password", "it's"],
    )
    assert found.ignore.query == ("api_key", "when")
    assert found.ignore.paths == ("$.request.body['password']", "$.request.body['it\\'s']")
    assert said == [
        "filter_headers x-tenant",
        "filter_query_parameters when",
        "filter_post_data_parameters it's",
    ]
    assert _translated(filter_headers=["x-tenant"])[1] == []  # a replay writes nothing


def test_nested_parameters() -> None:
    found, _ = _translated(
        match_on=["method", "uri", "body"],
        filter_post_data_parameters=["token"],
        filter_nested_post_data_parameters=True,
    )
    assert found.ignore.paths == ("$.request.body..['token']",)


def test_hosts_that_are_let_through() -> None:
    found, said = _translated(ignore_hosts=["a.example", re.compile("b.*")], ignore_localhost=True)
    assert found.pass_hosts == ("a.example", "localhost", "0.0.0.0", "127.0.0.1", "::1")
    assert said == ["ignore_hosts with a pattern"]


def test_what_is_not_honoured_is_said_and_what_is_switched_off_is_not() -> None:
    _, said = _translated(
        allow_playback_repeats=True,
        before_record_request=print,
        inject_cassette=False,
        decode_compressed_response=True,
        record_mode="none",
    )
    assert sorted(said) == ["allow_playback_repeats", "before_record_request"]
