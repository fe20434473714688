"""Recorded by us, written for another tool, read again, and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

import reenact
from reenact.cli.main import main
from tests.interop.serving import CLIENTS, REQUESTS, serving

Told = tuple[int, list[str], bytes]


def _there_and_back(folder: Path, file: str, *words: str) -> Path:
    assert main(["export", str(folder / "t.jsonl"), str(folder / file), *words]) == 0
    assert main(["import", str(folder / file), "-o", str(folder / "again.jsonl")]) == 0
    return folder / "again.jsonl"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Told]]:
    folder, ask = tmp_path_factory.mktemp("recorded"), CLIENTS["httpx"]
    with serving() as server:
        with reenact.session(tape=folder / "t.jsonl", mode="record", root=folder):
            answers = [ask(method, server.url + path, body) for method, path, body in REQUESTS]
        return folder, server.url, answers


@pytest.mark.parametrize("file", ["x.har", "x.yaml"])
def test_everything_that_a_program_sees_comes_back(
    file: str, recorded: tuple[Path, str, list[Told]]
) -> None:
    folder, url, answers = recorded
    tape = _there_and_back(folder, file)
    try:
        with reenact.session(tape=tape, match="lookup", strict=True, root=folder):
            for client, answer, (method, path, body) in zip(
                [*CLIENTS, *CLIENTS], answers, REQUESTS, strict=False
            ):
                assert CLIENTS[client](method, url + path, body) == answer
    finally:
        tape.unlink()


def test_boruna_keeps_bodies_that_are_text(recorded: tuple[Path, str, list[Told]]) -> None:
    folder, url, answers = recorded
    tape = _there_and_back(folder, "x.json", "--format", "boruna")
    try:
        with reenact.session(tape=tape, match="lookup", strict=True, unused="allow", root=folder):
            for (method, path, body), answer in zip(REQUESTS[:4], answers, strict=False):
                assert CLIENTS["httpx"](method, url + path, body) == (200, [], answer[2])
    finally:
        tape.unlink()
