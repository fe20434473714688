"""Environment variables that a program reads and folders that it goes to, as ``state_mutation`` events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.cli.main import main
from reenact.engine.session.session import Session
from reenact.store.verify import verify
from tests.unit.policy.secrets_for_tests import TOKENS


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("SHADE", raising=False)


def session(place: Path, mode: str, **given: Any) -> Session:
    return reenact.session(capture=place, mode=mode, root=place.parent, **given)


def program() -> list[Any]:
    found = [os.environ["COLOUR"], os.environ.get("SHADE"), "COLOUR" in os.environ]
    os.chdir("one")
    os.chdir("../two")
    os.chdir("..")
    return [*found, os.environ["COLOUR"]]


def mutations(place: Path) -> list[tuple[str, Any]]:
    lines = (place / "events.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [
        (one["data"]["type"], one["data"]["details"])
        for one in found
        if one["type"] == "state_mutation"
    ]


def test_variables_and_folders_are_recorded_as_state_mutations(tmp_path: Path) -> None:
    with session(tmp_path / "c", "record"):
        program()
    assert mutations(tmp_path / "c") == [
        ("env_read", {"variables": {"COLOUR": "blue", "SHADE": None}}),
        ("cwd_change", {"path": str(tmp_path / "one")}),
        ("cwd_change", {"path": str(tmp_path / "two")}),
        ("cwd_change", {"path": str(tmp_path)}),
    ]
    verify(tmp_path / "c")


def test_value_of_a_variable_is_stored_once(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLOUR", "ultramarine")
    with session(tmp_path / "c", "record"):
        program()
    assert (tmp_path / "c" / "events.jsonl").read_text("utf-8").count("ultramarine") == 1


def test_replay_gives_the_recorded_variables(tmp_path: Path, monkeypatch: Any) -> None:
    with session(tmp_path / "c", "record"):
        then = program()
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("SHADE", "dark")
    with session(tmp_path / "c", "replay", strict=True):
        assert program() == then


def test_replay_in_another_folder_is_the_same_run(tmp_path: Path, monkeypatch: Any) -> None:
    with session(tmp_path / "c", "record") as first:
        program()
    other = tmp_path / "other"
    for name in ("one", "two"):
        (other / name).mkdir(parents=True)
    monkeypatch.chdir(other)
    with session(tmp_path / "c", "replay", strict=True) as again:
        program()
    assert again.report().status == "ok"
    with session(tmp_path / "d", "record") as second:
        program()
    assert first.manifest is not None
    assert second.manifest is not None
    hashes = {one.integrity.content_hash for one in (first.manifest, second.manifest)}
    assert len(hashes) == 1


def test_all_names_are_one_state_mutation(tmp_path: Path, monkeypatch: Any) -> None:
    with session(tmp_path / "c", "record"):
        then = sorted(os.environ)
    [(kind, details)] = mutations(tmp_path / "c")
    assert kind == "env_read"
    assert "COLOUR" in details["names"]
    monkeypatch.setenv("SHADE", "dark")
    with session(tmp_path / "c", "replay", strict=True):
        assert sorted(os.environ) == then


def test_update_of_a_program_that_did_the_same_changes_nothing(tmp_path: Path) -> None:
    with session(tmp_path / "c", "record"):
        program()
    before = (tmp_path / "c" / "events.jsonl").read_bytes()
    for mode in ("record_missing", "update"):
        with session(tmp_path / "c", mode):
            program()
        assert (tmp_path / "c" / "events.jsonl").read_bytes() == before


def test_secret_in_a_variable_is_sealed_and_given_back(tmp_path: Path, monkeypatch: Any) -> None:
    secret = TOKENS["shape.github"]
    address = f"https://example.org/?key={secret}"
    monkeypatch.setenv("COLOUR", address)
    with session(tmp_path / "c", "record"):
        program()
    for file in (tmp_path / "c").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()
    monkeypatch.setenv("COLOUR", "")
    with session(tmp_path / "c", "replay", strict=True):
        assert os.environ["COLOUR"] == address


@pytest.mark.parametrize(
    "words",
    [
        ("show", "c"),
        ("show", "c", "--json"),
        ("diff", "c", "c"),
        ("stats", "c"),
        ("show", "c", "--timeline"),
        ("verify", "c"),
        ("view", "c", "-o", "c.html"),
    ],
    ids=" ".join,
)
def test_commands_read_such_a_recording(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with session(tmp_path / "c", "record"):
        program()
    assert main(list(words)) == 0
    said = capsys.readouterr().out
    listed = words[0] == "show" and "--timeline" not in words
    assert not listed or ("env_read" in said and "cwd_change" in said)
