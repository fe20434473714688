"""The table of network stacks, and what is done about each kind when it is imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Policy, Session
from reenact.boundaries import registry
from reenact.boundaries.registry import TABLE, Boundary
from reenact.hermetic.network_libraries import (
    BUILT_ON,
    NETWORK_LIBRARIES,
    NetworkLibrary,
    imported_libraries,
    is_covered,
)
from reenact.policy.model import BoundaryRule

UNSEEN = ("uvloop", "pycurl", "grpc", "psycopg2", "confluent_kafka", "zmq", "curl_cffi", "MySQLdb")
SEEN = ("pymongo", "asyncpg", "pika", "websocket", "niquests")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """``shelf(name)`` makes a package of that name that can be imported."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made: dict[str, ModuleType | None] = {}

    def make(name: str) -> None:
        (folder / f"{name}.py").write_text("there = True\n", encoding="utf-8")
        importlib.invalidate_caches()
        made[name] = sys.modules.pop(name, None)  # the real one, if another test needed it

    yield make
    for name, real in made.items():
        sys.modules.pop(name, None)
        if real is not None:
            sys.modules[name] = real


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    with reenact.session(capture=tmp_path / "recorded", mode="record"):
        pass
    return tmp_path / "recorded"


@pytest.fixture
def record(tmp_path: Path, warnings: list[str]) -> Callable[[], Session]:
    return lambda: reenact.session(capture=tmp_path / "made", mode="record", warn=warnings.append)


@pytest.fixture
def replay(recording: Path, warnings: list[str]) -> Callable[..., Session]:
    def open_(policy: Policy | None = None) -> Session:
        return reenact.session(
            capture=recording, mode="replay", strict=True, policy=policy, warn=warnings.append
        )

    return open_


# The table


def test_a_stack_has_one_kind_and_those_with_a_boundary_have_none() -> None:
    assert {stack.kind for stack in NETWORK_LIBRARIES.values()} == {"seen", "unseen"}
    assert not any(
        is_covered(module, {one.module for one in TABLE}) for module in NETWORK_LIBRARIES
    )
    assert not set(BUILT_ON) & set(NETWORK_LIBRARIES)
    assert set(BUILT_ON.values()) <= set(registry.covered())


def test_a_boundary_inside_a_package_covers_it() -> None:
    assert is_covered("grpc", {"grpc._channel"})
    assert is_covered("grpc", {"grpc"})
    assert not is_covered("grpc", {"grpcio"})
    assert not is_covered("websockets.legacy", {"websockets.asyncio.client"})


def test_imported_ones_are_listed_by_name() -> None:
    present = ["zmq", "json", "pymongo", "httpx", "psycopg"]
    assert [stack.name for stack in imported_libraries((), present)] == [
        "psycopg (libpq)",
        "pymongo",
        "pyzmq (libzmq)",
    ]
    assert imported_libraries({"zmq.sugar", "pymongo", "psycopg"}, present) == []


def test_covered_and_uncovered_ones_of_this_process(
    shelf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf("pymongo")
    importlib.import_module("pymongo")
    assert {"httpx", "httpx2", "requests", "urllib3", "aiohttp"} <= set(registry.covered())
    assert NetworkLibrary("pymongo", "pymongo", "seen") in registry.uncovered()
    monkeypatch.setattr(registry, "_added", [])
    registry.add_boundary(Boundary("mongo", "pymongo", lambda module: []))
    assert "mongo" in registry.covered()
    assert "pymongo" not in [stack.module for stack in registry.uncovered()]


# Unseen


@pytest.mark.parametrize(
    "how",
    ["import uvloop", "__import__('uvloop')", "from uvloop import there"],
    ids=["statement", "function", "name"],
)
def test_every_way_of_importing_is_seen(
    how: str, shelf: Callable[[str], None], replay: Callable[..., Session]
) -> None:
    shelf("uvloop")
    session = replay()
    with pytest.raises(DivergenceError), session:
        exec(how, {"__name__": "program"})


def test_looking_whether_it_is_there_is_no_import(
    shelf: Callable[[str], None], replay: Callable[..., Session]
) -> None:
    shelf("uvloop")
    with replay():
        assert importlib.util.find_spec("uvloop") is not None


@pytest.mark.parametrize("name", UNSEEN)
def test_an_unseen_stack_is_refused_at_import_in_a_replay(
    name: str, shelf: Callable[[str], None], replay: Callable[..., Session]
) -> None:
    shelf(name)
    with pytest.raises(DivergenceError) as caught, replay():
        try:
            importlib.import_module(name)
        except BaseException:
            pass  # hides it
    assert name not in sys.modules
    said = " ".join(str(caught.value).split())
    assert f"imports {NETWORK_LIBRARIES[name].name} (" in said
    assert "test_stacks.py" in said
    assert "--isolate" in said


def test_an_unseen_stack_is_warned_about_while_recording(
    shelf: Callable[[str], None], record: Callable[[], Session], warnings: list[str]
) -> None:
    shelf("uvloop")
    with record():
        for _ in range(2):
            importlib.import_module("uvloop")
            sys.modules.pop("uvloop")
    assert len(warnings) == 1
    assert "imports uvloop" in warnings[0]
    assert "a replay refuses to import it" in warnings[0]


def test_an_unseen_stack_that_was_there_before_is_mentioned(
    shelf: Callable[[str], None], replay: Callable[..., Session], warnings: list[str]
) -> None:
    shelf("pycurl")
    importlib.import_module("pycurl")
    with replay():
        pass
    assert [said for said in warnings if said.startswith("pycurl (libcurl) was imported before")]


def test_a_rule_lets_an_unseen_stack_in(
    shelf: Callable[[str], None], replay: Callable[..., Session]
) -> None:
    shelf("grpc")
    rule = BoundaryRule(capability="net.connect", operation="grpc", action="pass")
    with replay(Policy(id="p", boundaries=(rule,), allow_passthrough=True)) as session:
        importlib.import_module("grpc")
    assert session.report().passed == {"net.connect grpc": 1}


def test_saying_that_it_is_isolated_is_not_enough(
    shelf: Callable[[str], None], replay: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf("uvloop")
    monkeypatch.setenv("REENACT_ISOLATED", "1")
    session = replay()
    with pytest.raises(DivergenceError), session:
        importlib.import_module("uvloop")


def test_a_stack_with_a_boundary_of_ones_own_is_let_in(
    shelf: Callable[[str], None],
    replay: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf("pycurl")
    monkeypatch.setattr(registry, "_added", [])
    registry.add_boundary(Boundary("pycurl", "pycurl", lambda module: []))
    with replay():
        assert importlib.import_module("pycurl").there


# Seen


@pytest.mark.parametrize("name", SEEN)
def test_a_seen_stack_is_warned_about_while_recording(
    name: str, shelf: Callable[[str], None], record: Callable[[], Session], warnings: list[str]
) -> None:
    shelf(name)
    with record():
        importlib.import_module(name)
    assert len(warnings) == 1
    assert f"no boundary covers {NETWORK_LIBRARIES[name].name}" in warnings[0]


def test_a_seen_stack_may_be_imported_in_a_replay(
    shelf: Callable[[str], None], replay: Callable[..., Session], warnings: list[str]
) -> None:
    shelf("pymongo")
    with replay():
        importlib.import_module("pymongo")
    assert warnings == []


@pytest.mark.parametrize("who", ["aiohttp.resolver", "requests", "websockets.imports"])
@pytest.mark.parametrize("name", ["pymongo", "pycares"])
def test_what_a_covered_client_imports_is_its_own_business(
    name: str,
    who: str,
    shelf: Callable[[str], None],
    record: Callable[[], Session],
    replay: Callable[..., Session],
    warnings: list[str],
) -> None:
    shelf(name)
    for session in (record(), replay()):
        sys.modules.pop(name, None)
        with session:
            space: dict[str, Any] = {"__name__": who}
            exec(f"import {name}", space)
            assert space[name].there
    assert warnings == []


def test_what_has_a_boundary_is_no_news(record: Callable[[], Session], warnings: list[str]) -> None:
    with record():
        importlib.import_module("httpx")
        importlib.import_module("requests")
    assert warnings == []
