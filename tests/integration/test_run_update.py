"""``reenact run --mode update``: a program that was changed, and its recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import reenact
from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

PROGRAM = """
    import random, sys
    from ask import ask

    code, *paths = sys.argv[1:]
    for path in paths:
        print(ask(path), random.random())
    sys.exit(int(code))
"""


def _run(theatre: Theatre, where: tuple[str, ...], code: int, *paths: str) -> Ran:
    return theatre.run(*where, "--", sys.executable, "program.py", str(code), *paths)


def _said(ran: Ran) -> str:
    (line,) = [line for line in ran.err.splitlines() if "updated" in line]
    return line.removeprefix("reenact: ")


def _content(place: Path) -> dict[str, bytes]:
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "record, replay, name",
    [("--capture", "--replay", "c"), ("--record-net-to", "--replay-net-from", "n.jsonl")],
    ids=["capture", "tape"],
)
def test_what_differs_is_made_again_if_the_program_succeeds(
    theatre: Theatre, record: str, replay: str, name: str
) -> None:
    theatre.write("program.py", PROGRAM)
    place = theatre.folder / name
    where, update = (record, name), (record, name, "--mode", "update", "--report", "r.json")
    made = _run(theatre, where, 0, "/json?a", "/json?b", "/json?c")
    again = _run(theatre, update, 0, "/json?a", "/json?x", "/json?c")
    assert _said(again) == f"updated {name}: 2 kept, 1 changed, 0 added, 0 dropped"
    told = json.loads((theatre.folder / "r.json").read_text(encoding="utf-8"))
    assert (told["kept"], [one["code"] for one in told["changed"]]) == (
        2,
        ["event_payload_mismatch"],
    )
    answers = [[line.split(b" 0.")[0] for line in ran.out.splitlines()] for ran in (made, again)]
    assert [answers[1][0], answers[1][2]] == [answers[0][0], answers[0][2]]
    with reenact.open_recording(place) as source:
        events = list(source)
    assert events[0].type == "run_start"
    assert events[-1].type == "run_end"

    before = _content(place)
    failed = _run(theatre, update, 3, "/json?a", "/json?y")
    assert failed.code == 3
    assert _said(failed).startswith(f"not updated {name}: ")
    same = _run(theatre, update, 0, "/json?a", "/json?x", "/json?c")
    assert _said(same) == f"updated {name}: 3 kept, 0 changed, 0 added, 0 dropped"
    assert _content(place) == before
    assert {path.name for path in theatre.folder.glob(f"{name}*")} == {name}
    replayed = _run(theatre, (replay, name), 0, "/json?a", "/json?x", "/json?c")
    assert (replayed.code, replayed.summary) == (
        0,
        "replayed 3 calls in 1 lane, 0 live, 0 unused",
    )
