"""Hosts that are let through: really asked in every mode, and not recorded."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import requests

from reenact.boundaries.registry import PATCHES
from reenact.engine.session.session import Session
from reenact.engine.session.settings import resolve_settings
from reenact.errors import DivergenceError
from reenact.store.reader import open_recording
from tests.interop.serving import CLIENTS, serving


def _session(tape: Path, mode: str, *hosts: str) -> Session:
    settings = resolve_settings(
        tape=tape,
        mode=mode,
        strict=True,
        root=tape.parent,
        boundaries=PATCHES,
        only="network",
        pass_hosts=hosts,
    )
    return Session(settings)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_host_that_is_let_through(client: str, tmp_path: Path) -> None:
    ask, tape = CLIENTS[client], tmp_path / "t.jsonl"
    with serving() as server:
        other = server.url.replace("127.0.0.1", "localhost")
        with _session(tape, "record", "localhost"):
            ask("GET", f"{other}/json", None)
            recorded = ask("GET", f"{server.url}/json", None)
        with open_recording(tape) as source:
            asked = [event.data["request"] for event in source if "request" in event.data]
        assert [request["url"] for request in asked] == [f"{server.url}/json"]
        before = server.asked
        with _session(tape, "replay", "localhost"):
            assert ask("GET", f"{server.url}/json", None) == recorded
            ask("GET", f"{other}/json", None)
        assert server.asked == before + 1


def test_others_are_refused_all_the_same(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    with serving() as server:
        with _session(tape, "record", "a.example"):
            requests.get(f"{server.url}/json")
        with pytest.raises(DivergenceError), _session(tape, "replay", "a.example"):
            httpx.get(f"{server.url}/other")
        assert server.asked == 1
