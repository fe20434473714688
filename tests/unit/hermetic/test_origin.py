"""Whose code it is, and which line of it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

import reenact
from reenact.hermetic.call_origin import (
    calling_module,
    code_kind,
    importing_module,
    is_importing,
    source_location,
)


@pytest.mark.parametrize(
    "filename, kind",
    [
        (reenact.__file__, "ours"),
        (
            os.path.join(os.path.dirname(reenact.__file__), "engine", "session", "session.py"),
            "ours",
        ),
        ("<frozen importlib._bootstrap>", "standard"),
        (sysconfig.__file__, "standard"),
        (pytest.__file__, "library"),
        (__file__, "program"),
        ("<string>", "program"),
    ],
    ids=["package", "module", "frozen", "standard", "library", "test", "string"],
)
def test_whose_a_file_is(filename: str, kind: str) -> None:
    assert code_kind(filename) == kind


def test_the_place_is_the_line_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    line = sys._getframe().f_lineno + 1
    assert source_location() == f"test_origin.py:{line}"


def test_a_library_is_named_with_who_called_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    code = compile("found = place()", str(tmp_path / "site-packages" / "lib" / "net.py"), "exec")
    space: dict[str, object] = {"place": source_location}
    line = sys._getframe().f_lineno + 1
    exec(code, space)
    assert space["found"] == f"lib/net.py:1, called from test_origin.py:{line}"


def test_the_caller_is_the_first_that_is_not_passed_through() -> None:
    assert calling_module(frozenset()) == __name__
    assert calling_module(frozenset({__name__})) != __name__
    space: dict[str, object] = {"caller": calling_module, "__name__": "platform"}
    exec("found = caller(frozenset())", space)
    assert space["found"] == ""


def test_who_imports() -> None:
    assert importing_module() == (__name__, "program")
    assert not is_importing("json")
