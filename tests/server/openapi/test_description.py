"""The description of the API is whole, and is what the routes are."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import msgspec
import pytest

from reenact.exchange.model import STATES, VERDICTS
from reenact.server.openapi import describe, in_api, to_page
from reenact.server.problems import STATUS
from reenact.server.routes import ENDPOINTS
from tests.server.house import House

DESCRIPTION = describe(ENDPOINTS, "test.example")


def refs(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(refs, value.values()))
    return set().union(*map(refs, value)) if isinstance(value, list) else set()


def test_every_route_for_programs_says_what_it_is() -> None:
    silent = [f"{one.method} {one.path}" for one in ENDPOINTS if in_api(one) and one.says is None]
    assert silent == []
    told = {
        (method.upper(), path) for path, ways in DESCRIPTION["paths"].items() for method in ways
    }
    assert told == {(one.method, one.path) for one in ENDPOINTS if in_api(one)}


def test_names_are_unique_and_types_are_there() -> None:
    operations = [one for ways in DESCRIPTION["paths"].values() for one in ways.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names)
    known = {f"#/components/schemas/{name}" for name in DESCRIPTION["components"]["schemas"]}
    assert refs(DESCRIPTION) <= known


@pytest.mark.parametrize("name", sorted(DESCRIPTION["components"]["schemas"]))
def test_every_type_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DESCRIPTION["components"]["schemas"][name])


def test_codes_of_problems_exist() -> None:
    for endpoint in ENDPOINTS:
        if endpoint.says is not None:
            assert set(endpoint.says.codes) <= set(STATUS), endpoint.path


def test_filters_say_what_they_may_be() -> None:
    fields = {
        path: {
            one["name"]: one["schema"].get("enum")
            for one in DESCRIPTION["paths"][f"/api/v1/{path}"]["get"]["parameters"]
        }
        for path in ("replays", "agents")
    }
    assert fields["replays"]["verdict"] == list(VERDICTS)
    assert fields["replays"]["state"] == list(STATES)
    assert fields["replays"]["by"] is None
    assert fields["agents"]["state"] == ["online", "offline", "gone"]
    for endpoint in ENDPOINTS:
        if endpoint.says is not None:
            assert set(endpoint.says.words) <= set(endpoint.says.query), endpoint.path


def test_permissions_are_told() -> None:
    replay = DESCRIPTION["paths"]["/api/v1/exchanges/{id}/replays"]["post"]
    assert replay["x-permissions"] == ["replay:execute", "replay:execute:production"]
    assert DESCRIPTION["paths"]["/healthz"]["get"]["security"] == []


def test_it_is_served_with_a_page(house: House) -> None:
    client = house.client()
    answer = client.get("/api/openapi.json")
    assert answer.json() == msgspec.json.decode(msgspec.json.encode(DESCRIPTION))
    page = client.get("/api/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    for path in DESCRIPTION["paths"]:
        assert f"<code>{path}</code>" in page.text
    anchors = set(re.findall(r'href="#([^"]+)"', page.text))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page.text))


def test_nothing_in_the_page_is_obeyed() -> None:
    hostile = {**DESCRIPTION, "info": {"title": "<img src=x onerror=alert(1)>", "version": "&"}}
    page = to_page(hostile)
    assert "<img" not in page
    assert "&lt;img" in page
