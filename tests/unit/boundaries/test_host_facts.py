"""Environment and host facts in sessions of one process; outside of them nothing is replaced."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.boundaries.host.environment import known_environment
from reenact.boundaries.host.facts import Numbers
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.errors import PolicyRefused
from reenact.format.draw_runs import load_aside
from reenact.policy.model import BoundaryRule, Policy


def _session(folder: Path, mode: str, **more: Any) -> reenact.Session:
    return reenact.session(capture=folder / "c", mode=mode, root=folder, strict=True, **more)


def _recorded(folder: Path) -> list[str]:
    """What was asked for, by key."""
    with reenact.open_recording(folder / "c") as source:
        return [name for event in source for name in load_aside(event.data).names]


def test_nothing_is_replaced_outside_of_a_session(tmp_path: Path) -> None:
    before = (os.getpid, os.getcwd, os.kill, socket.gethostname, platform.node, os.fork)
    kinds = type(os.environ), type(os.environb)
    methods = dict(vars(kinds[0]))
    with _session(tmp_path, "record"):
        assert os.getpid is not before[0]
        assert type(os.environ).__getitem__ is not kinds[0].__getitem__
    assert (os.getpid, os.getcwd, os.kill, socket.gethostname, platform.node, os.fork) == before
    assert (type(os.environ), type(os.environb)) == kinds
    assert dict(vars(kinds[0])) == methods


def test_variables_look_as_ever(tmp_path: Path) -> None:
    kind = type(os.environ)
    with _session(tmp_path, "record"):
        now = type(os.environ)
        assert isinstance(os.environ, kind)
        assert (now.__name__, now.__qualname__, now.__module__) == ("_Environ", "_Environ", "os")
        assert os.environ.get.__func__ is kind.get  # type: ignore[attr-defined]


def test_however_often_a_session_was_opened(tmp_path: Path, monkeypatch: Any) -> None:
    """Python 3.13 gives up on telling versions of a class apart after a thousand of them."""
    from reenact.boundaries.host import environment

    monkeypatch.setenv("COLOUR", "blue")
    seams = environment.environment_patches(os)
    for _ in range(1_200):
        for one in seams:
            one.install()
        for one in seams:
            one.remove()
        for _ in range(3):
            os.getenv("COLOUR")
    with _session(tmp_path, "record"):
        assert os.getenv("COLOUR") == "blue"
    assert "env COLOUR" in _recorded(tmp_path)


def test_a_variable_comes_from_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("SHADE", raising=False)
    with _session(tmp_path, "record"):
        assert (os.environ["COLOUR"], os.getenv("SHADE")) == ("blue", None)
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("SHADE", "dark")
    with _session(tmp_path, "replay"):
        assert (os.environ["COLOUR"], os.getenv("SHADE")) == ("blue", None)
    assert os.environ["COLOUR"] == "red"


def test_a_variable_of_the_programs_own_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OWN", raising=False)
    for mode in ("record", "replay"):
        with _session(tmp_path, mode):
            os.environ["OWN"] = mode
            assert os.environ["OWN"] == mode
            del os.environ["OWN"]
            assert os.environ.get("OWN") is None
    assert not any("OWN" in name for name in _recorded(tmp_path))


def test_a_secret_variable_is_live_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in ("record", "replay"):
        monkeypatch.setenv("MY_API_KEY", f"of {mode}")
        with _session(tmp_path, mode):
            assert os.environ["MY_API_KEY"] == f"of {mode}"
    assert not any("MY_API_KEY" in name for name in _recorded(tmp_path))


def test_names_of_secrets_that_are_not_set_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "x")
    with _session(tmp_path, "record"):
        recorded = dict(os.environ)
    monkeypatch.delenv("MY_API_KEY")
    with _session(tmp_path, "replay"):
        replayed = dict(os.environ)
    assert recorded == {**replayed, "MY_API_KEY": "x"}


def test_a_value_that_holds_a_secret_is_what_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE", "postgres://me:" + "hush" * 5 + "@host/db")
    with _session(tmp_path, "record", seal=False):
        assert "hush" in os.environ["BASE"]
    monkeypatch.setenv("BASE", "postgres://me:other@host/db")
    with _session(tmp_path, "replay"):
        assert os.environ["BASE"] == "postgres://me:other@host/db"
    text = (tmp_path / "c" / "events.jsonl").read_text()
    assert "BASE" in text
    assert "hush" not in text


def test_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD", os.fsdecode(b"\xff\xfe"))
    with _session(tmp_path, "record"):
        recorded = os.environ["ODD"], os.environb[b"ODD"]
    monkeypatch.setenv("ODD", "even")
    with _session(tmp_path, "replay"):
        assert (os.environ["ODD"], os.environb[b"ODD"]) == recorded


def test_what_is_no_name_is_refused_as_ever(tmp_path: Path) -> None:
    with _session(tmp_path, "record"), pytest.raises(TypeError, match="str expected"):
        os.environ[5]  # type: ignore[index]


def test_the_environment_as_the_program_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    with _session(tmp_path, "record"):
        given = {**os.environ, "MORE": "1"}
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("EXTRA", "1")
    with _session(tmp_path, "replay"):
        given_again = {**os.environ, "MORE": "1"}
        session = current()
        assert session is not None
        known = known_environment(session)
    assert given_again == given
    assert {**known, "MORE": "1"} == given


def test_functions_do_not_become_methods(tmp_path: Path) -> None:
    class Asks:
        pid = os.getpid

    with _session(tmp_path, "record"):
        asks: Any = Asks()
        assert asks.pid() == os.getpid()


def test_an_error_is_raised_again(tmp_path: Path) -> None:
    pwd = pytest.importorskip("pwd")
    said: list[str] = []
    for mode in ("record", "replay"):
        with _session(tmp_path, mode), pytest.raises(KeyError) as caught:
            pwd.getpwnam("nobody at all")
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_numbers_of_processes_and_whom_they_mean() -> None:
    numbers = Numbers(has_started={700}.__contains__)
    numbers.learn(5000, 900)
    numbers.learn(700, 901)
    assert [numbers.now(5000), numbers.now(-5000), numbers.now(1), numbers.now(-1)] == [
        900,
        -900,
        1,
        -1,
    ]
    assert numbers.now(700) == 700, "the program has started a process that has this number now"
    assert [numbers.then(900), numbers.then(5000)] == [5000, 5000]
    assert numbers.now("5000") == "5000"


def test_threads_have_their_present_numbers(tmp_path: Path) -> None:
    with _session(tmp_path, "record"):
        told = threading.get_ident(), threading.current_thread().ident, threading.get_native_id()
    assert told == (threading.get_ident(), threading.main_thread().ident, threading.get_native_id())
    assert _recorded(tmp_path) == []


def test_a_variable_is_written_once_in_each_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")

    def read() -> None:
        for _ in range(3):
            assert os.environ["COLOUR"] == "blue"

    with _session(tmp_path, "record"):
        read()
        for _ in range(2):
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
    with reenact.open_recording(tmp_path / "c") as source:
        found = sorted((event.lane, event.type, event.data["details"]) for event in source)
    read_once = {"variables": {"COLOUR": "blue"}}
    assert found == [(lane, "state_mutation", read_once) for lane in ("0", "0.1", "0.2")]


def test_nothing_is_frozen_while_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(value: str) -> None:
        token = enter_session(OUTSIDE)  # as below a boundary, or in a thread of nobody's
        try:
            os.environ["COLOUR"] = value
            os.environ["NEW"] = value
        finally:
            leave_session(token)

    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("NEW", raising=False)
    with _session(tmp_path, "record"):
        before = os.environ["COLOUR"], "NEW" in list(os.environ)
        change("red")
        after = os.environ["COLOUR"], "NEW" in list(os.environ)
    monkeypatch.delenv("NEW")
    assert (before, after) == (("blue", False), ("red", True))


def test_the_order_of_names_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> list[list[str]]:
        seen = [list(os.environ)]
        monkeypatch.setenv("AAA", "1")
        os.environ["SHADE"] = os.environ.pop("COLOUR")
        os.environ["COLOUR"] = "own"
        seen.append(list(os.environ))
        del os.environ["SHADE"]
        return [*seen, list(os.environ)]

    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.setenv("SHADE", "dark")
    monkeypatch.setenv("AAA", "0")
    with _session(tmp_path, "record"):
        recorded = read()
    monkeypatch.setenv("ANOTHER", "one")
    monkeypatch.delenv("AAA")
    monkeypatch.setenv("SHADE", "light")
    with _session(tmp_path, "replay"):
        assert read() == recorded
    assert recorded[1][-1] == "COLOUR"


def test_a_copy_of_the_environment_is_what_was_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    with _session(tmp_path, "record"):
        assert os.environ["COLOUR"] == "blue"
        copied = deepcopy(os.environ)
        del copied["COLOUR"]
        assert copied.get("COLOUR") is None
        assert os.environ["COLOUR"] == "blue"


def test_what_is_deleted_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("NOBODY", raising=False)

    def delete() -> list[bool]:
        gone: list[bool] = []
        for name in ("COLOUR", "NOBODY"):
            try:
                del os.environ[name]
                gone.append(name not in os.environ)
            except KeyError:
                gone.append(False)
        return gone

    with _session(tmp_path, "record"):
        recorded = delete()
    monkeypatch.setenv("NOBODY", "somebody")
    with _session(tmp_path, "replay"):
        assert delete() == recorded == [True, False]


def test_what_lasts_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as machine:
        machine.setattr(platform, "node", lambda: "elsewhere")
        machine.setattr(os, "getloadavg", lambda: (1.0, 2.0, 3.0))
        with _session(tmp_path, "record"):
            assert (platform.node(), os.getloadavg()) == ("elsewhere", (1.0, 2.0, 3.0))
    with _session(tmp_path, "replay"):
        assert [platform.node() for _ in range(3)] == ["elsewhere"] * 3
        assert os.getloadavg() == (1.0, 2.0, 3.0)
        assert len(os.getloadavg()) == 3


def test_plumbing_is_left_alone(tmp_path: Path) -> None:
    with _session(tmp_path, "record"):
        assert os.path.abspath("x") == os.path.join(os.path.abspath("."), "x")
        json.dumps({})
        urllib.request.getproxies()
        tempfile.gettempdir()
        shutil.which("sh")
    assert _recorded(tmp_path) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda: os.environ.get("HOME"),
        lambda: list(os.environ),
        lambda: os.uname(),
        Path.cwd,
        Path.home,
    ],
    ids=["a variable", "all variables", "a fact", "a folder", "the home"],
)
def test_what_the_policy_refuses_is_not_told(tmp_path: Path, ask: Callable[[], Any]) -> None:
    rule = BoundaryRule(capability="env.read", action="block")
    policy = Policy(id="p", boundaries=(rule,))
    with (
        _session(tmp_path, "record", policy=policy),
        pytest.raises(PolicyRefused, match=r"env\.read"),
    ):
        ask()
    assert _recorded(tmp_path) == []


def test_what_the_policy_passes_by_is_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = BoundaryRule(capability="env.read", action="pass")
    policy = Policy(id="p", boundaries=(rule,))
    for mode in ("record", "replay"):
        monkeypatch.setenv("COLOUR", mode)
        with _session(tmp_path, mode, policy=policy):
            assert os.environ["COLOUR"] == mode
    assert _recorded(tmp_path) == []
