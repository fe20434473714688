"""Secrets of every kind through sessions: none in any file, message, report, or on stderr."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, PolicyRefused, Redactor, ReenactError, Session, verify
from reenact.errors import ValueRefused
from reenact.policy.model import BoundaryRule, Policy
from reenact.policy.redaction.redactor import Profile
from tests.conftest import SOAK
from tests.leak.places import BY_NAME, FREE
from tests.leak.planted import NAMES, SHAPES, Plant, known_value, plant_name, plant_shape
from tests.leak.search import Planted, decoded, leaks

PLACE = "in a session"
FEW_PLACES = ("text", "nested", "in a query", "in pairs of headers", "as bytes", "in a repr")


def _plants() -> Iterator[tuple[str, Plant, Any]]:
    """What is planted, and a value with it: a secret gives itself away by its shape or its name, or
    it is declared or in the environment."""
    for number, kind in enumerate(SHAPES):
        for place in (FEW_PLACES[number % 6], FEW_PLACES[(number + 1) % 6]):
            plant = plant_shape(kind, f"{PLACE} {place}")
            yield f"{kind} {place}", plant, FREE[place](plant.text)
    for kind in ("declared", "env"):
        for place in FEW_PLACES:
            plant = known_value(kind, PLACE)
            yield f"{kind} {place}", plant, FREE[place](plant.text)
    for name in NAMES:
        plant = plant_name(name, PLACE)
        yield f"{name} under its name", plant, BY_NAME["under its name"](name, plant.text)


ALL = list(_plants())
PARTS = 1 if SOAK else 3
"""In `make test` each combination below gets a part of what is planted, and together they get all."""


def _redactor(profile: Profile) -> Redactor:
    declared = [known_value("declared", PLACE).text]
    return Redactor(profile, declared=declared, environ={"A_TOKEN": known_value("env", PLACE).text})


class Room:
    """A folder for recordings; everything that was written or said is kept."""

    def __init__(self, folder: Path, profile: Profile, container: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._arguments: dict[str, Any] = {
            container: folder / "recording",
            "root": folder,
            "redaction": _redactor(profile),
            "warn": self.said.append,
        }

    def session(self, mode: str, **arguments: Any) -> Session:
        return reenact.session(mode=mode, **{**self._arguments, **arguments})

    def note(self, error: BaseException) -> None:
        """Keep everything that an exception says, to people and to machines."""
        self.said += [str(error), repr(error), getattr(error, "hint", "")]
        if isinstance(error, (ReenactError, DivergenceError)):
            self.said += [json.dumps(error.to_json()), str(error.message)]

    def everything(self) -> bytes:
        parts = ["\n".join(self.said).encode("utf-8", "replace")]
        for file in sorted(self.folder.rglob("*")):
            parts.append(file.name.encode())
            if file.is_file():
                content = file.read_bytes()
                parts += (content, *decoded(content))
        return b"\n".join(parts)


def _planted(place: str, plant: Plant) -> Planted:
    return Planted(place, None, [plant])  # type: ignore[arg-type]


EVERYTHING = [_planted(place, plant) for place, plant, _ in ALL]


def _text(plant: Plant, value: Any) -> str:
    """A text in which the secret can be found: a word that only its name gives away cannot."""
    return plant.text if plant.kind.startswith(("shape", "declared", "env")) else repr(value)


def _use(session: Session, plant: Plant, value: Any) -> Any:
    """Every way in and out that a program has."""
    text = _text(plant, value)

    def fail() -> Any:
        try:
            raise KeyError(text)
        except KeyError as error:
            problem = RuntimeError(f"cannot use {text} here")
            problem.add_note(f"it was {text}")
            problem.secret = value  # type: ignore[attr-defined]
            raise problem from error

    async def alive() -> Any:
        return value

    found = [
        session.call("fetch", {"body": value}, lambda: {"body": value}, capability="net.fetch"),
        session.call("tool", {"x": value}, lambda: [value]),
        list(session.stream("say", {"x": value}, lambda: iter([value, [value]]))),
        asyncio.run(session.aio.call("fetch", {"a": value}, alive, capability="net.fetch")),
    ]
    for capability in ("net.fetch", "tool.call"):
        try:
            session.call("fails", {"x": value}, fail, capability=capability)
        except RuntimeError as error:
            found.append(str(error))
    parts = [text[: len(text) // 2], text[len(text) // 2 :]]
    found.append(list(session.stream("parts", {}, lambda: iter(parts))))
    session.record_nondeterministic("env", "NAME", value)
    session.record_event("run_start", {"input": value, "argv": ["prog", text]})
    session.record_event("llm_request", _request(value))
    session.record_event("llm_response", {**_ANSWER, "response": value})
    return found


_ANSWER = {"provider": "p", "model": "m", "stopReason": None, "usage": None}


def _request(value: Any) -> dict[str, Any]:
    return {"provider": "p", "model": "m", "inputHash": "h", "messages": [value]}


COMBINATIONS: list[tuple[str, Profile]] = [
    ("capture", "default"),
    ("tape", "default"),
    ("capture", "strict"),
]


@pytest.mark.slow
@pytest.mark.parametrize("container,profile", COMBINATIONS)
def test_no_secret_of_a_session_is_in_any_file_or_message(
    container: str, profile: Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = Room(tmp_path, profile, container)
    part = ALL[COMBINATIONS.index((container, profile)) % PARTS :: PARTS]
    with room.session("record") as session:
        made = [_use(session, plant, value) for _, plant, value in part]
    with room.session("replay", strict=True, into=tmp_path / "again") as session:
        again = [_use(session, plant, value) for _, plant, value in part]
    if container == "capture":  # sealed, and the key is here
        assert again == made
    verify(tmp_path / "recording")
    assert leaks(room.everything(), EVERYTHING) == []
    captured = capfd.readouterr()
    assert leaks((captured.out + captured.err).encode(), EVERYTHING) == []


def test_the_search_would_find_what_a_session_writes(tmp_path: Path) -> None:
    """The other tests would pass if the search were blind."""
    room = Room(tmp_path, "none", "tape")
    with room.session("record") as session:
        for _, plant, value in ALL:
            _use(session, plant, value)
    assert len(leaks(room.everything(), EVERYTHING)) == len(EVERYTHING)


@pytest.mark.parametrize("strict", [True, False])
def test_no_secret_is_in_a_divergence_or_a_report(
    strict: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    room = Room(tmp_path, "default", "tape")
    planted = ALL[::3] if SOAK else ALL[3 * strict :: 6]
    with room.session("record") as session:
        for number, (_, _, value) in enumerate(planted):
            session.call("fetch", {"n": number, "x": value}, lambda: 1, capability="net.fetch")
    for number, (_, plant, value) in enumerate(planted):
        opened = room.session("replay", strict=strict, unused="warn")
        try:
            with opened:
                request = {"n": -number, "x": value, "more": [value, _text(plant, value)]}
                opened.call("fetch", request, lambda: 1, capability="net.fetch")
        except DivergenceError as error:
            room.note(error)
            room.said += traceback.format_exception_only(error)
        room.said.append(json.dumps(opened.report().to_json()))
        room.said += [str(one) for one in opened.divergences()]
    assert leaks(room.everything(), EVERYTHING) == []
    captured = capfd.readouterr()
    assert leaks((captured.out + captured.err).encode(), EVERYTHING) == []


def test_no_secret_is_in_a_refusal(tmp_path: Path) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="*", action="block"),))
    room = Room(tmp_path, "default", "tape")
    with room.session("record", policy=policy) as session:
        for _, plant, value in ALL:
            for operation in ("fetch", _text(plant, value)):
                with pytest.raises(PolicyRefused) as caught:
                    session.call(operation, {"x": value}, lambda: 1, capability="net.fetch")
                room.note(caught.value)
            with pytest.raises(ValueRefused) as refused:
                session.call("fetch", {_text(plant, value): {1}}, lambda: 1, capability="net.fetch")
            room.note(refused.value)
    assert leaks(room.everything(), EVERYTHING) == []
