"""What MCP servers and their tools are called."""

from __future__ import annotations

from typing import Any

import reenact
from reenact.boundaries.mcp.messages import server_of
from reenact.format.event import Data


def _info(name: str) -> Data:
    return {"serverInfo": {"name": name, "version": "1"}}


def _tools(*names: str) -> Data:
    return {"tools": [{"name": name} for name in names]}


def _session() -> Any:
    return reenact.session(mode="off")


def test_a_tool_has_its_own_name() -> None:
    server = server_of(_session(), {"argv": ["one"]})
    assert (server.label, server.name_of("search")) == ("", "search")
    server.heard("initialize", _info("web"))
    assert (server.label, server.name_of("search")) == ("web", "search")


def test_where_two_servers_have_it_the_server_is_part_of_its_name() -> None:
    session = _session()
    web, files = server_of(session, {"argv": ["web"]}), server_of(session, {"argv": ["files"]})
    web.heard("initialize", _info("web"))
    files.heard("initialize", _info("files"))
    web.heard("tools/list", _tools("search", "fetch"))
    files.heard("tools/list", _tools("search", "read"))
    assert [web.name_of("search"), files.name_of("search")] == ["web/search", "files/search"]
    assert [web.name_of("fetch"), files.name_of("read")] == ["fetch", "read"]


def test_the_same_server_again_keeps_its_name() -> None:
    session = _session()
    first, again = server_of(session, {"argv": ["web"]}), server_of(session, {"argv": ["web"]})
    for server in (first, again):
        server.heard("initialize", _info("web"))
        server.heard("tools/list", _tools("search"))
    assert (again.label, again.name_of("search")) == ("web", "search")


def test_two_servers_that_call_themselves_the_same() -> None:
    session = _session()
    one, other = (
        server_of(session, {"argv": ["fs", "/a"]}),
        server_of(session, {"argv": ["fs", "/b"]}),
    )
    for server in (one, other):
        server.heard("initialize", _info("fs"))
        server.heard("tools/list", _tools("read"))
    assert [one.name_of("read"), other.name_of("read")] == ["fs/read", "fs#2/read"]


def test_sessions_know_nothing_of_each_other() -> None:
    for _ in range(2):
        server = server_of(_session(), {"argv": [str(_)]})
        server.heard("initialize", _info(f"web{_}"))
        server.heard("tools/list", _tools("search"))
        assert server.name_of("search") == "search"


def test_a_server_that_says_who_it_is_when_it_is_discovered() -> None:
    server = server_of(_session(), {"url": "u"})
    stamp = {"io.modelcontextprotocol/serverInfo": {"name": "web", "version": "1"}}
    server.heard("server/discover", {"_meta": stamp})
    assert server.label == "web"


def test_what_makes_no_sense_changes_nothing() -> None:
    server = server_of(_session(), {"url": "u"})
    odd: list[Any] = [None, [], {"serverInfo": "web"}, {"serverInfo": {"name": 1}}, {"_meta": 3}]
    for said in odd:
        server.heard("initialize", said)
    server.heard("tools/list", {"tools": ["search", None]})
    assert (server.label, server.name_of("search")) == ("", "search")
