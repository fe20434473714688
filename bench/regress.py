"""Many recordings re-enacted, against the bare program with canned answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import reenact
from bench import agent
from bench.measure import Row, Setting, at_most, fact, interleave, ratio, wall
from reenact.runs.regression.jobs import Job, Performer, make_performer

TITLE = "many recordings re-enacted"

_PROGRAM = (sys.executable, "-m", "bench.agent", "2")


def run(setting: Setting) -> Iterator[Row]:
    many = setting.scaled(200)
    for turns, limit in ((2, 8), (20, 2.5)):
        yield from _functions(setting, _record(setting, many, turns), turns, limit)
    yield from _programs(setting, _record(setting, 3, 2))


def _record(setting: Setting, many: int, turns: int) -> list[Path]:
    agent.use(agent.Answers())
    places = [setting.folder / f"{many}-of-{turns}" / f"{number:05}" for number in range(many)]
    for place in places:
        with reenact.session(capture=place, mode="record", seal=False) as session:
            session.record_event("run_start", {"input": turns})
            output = agent.agent(turns)
            session.record_event("run_end", {"status": "ok", "output": output})
    return places


def _functions(setting: Setting, recordings: list[Path], turns: int, limit: float) -> Iterator[Row]:
    """One process that does one after the other, so one core."""
    agent.use(agent.canned())
    with closing(make_performer(Job(target="bench.agent:agent"))) as perform:
        times = interleave(
            {
                "bare": lambda: wall(lambda _: agent.agent(turns), recordings),
                "regress": lambda: wall(partial(_perform, perform), recordings),
            },
            setting.rounds,
        )
    what = f"regress --target, {turns} calls each"
    name = f"{what}: / the function with httpx.MockTransport"
    yield ratio(name, times["regress"], times["bare"], at_most(limit), clock="wall")
    rates = [len(recordings) / seconds for seconds in times["regress"]]
    yield fact(f"{what}: on a core", rates, "/s", clock="wall")


def _programs(setting: Setting, recordings: list[Path]) -> Iterator[Row]:
    with closing(make_performer(Job(command=_PROGRAM))) as perform:
        times = interleave(
            {
                "bare": lambda: wall(_bare, recordings),
                "regress": lambda: wall(partial(_perform, perform), recordings),
            },
            setting.rounds,
        )
    name = "regress -- python program.py: / the program with httpx.MockTransport"
    yield ratio(name, times["regress"], times["bare"], at_most(4), clock="wall")
    rates = [len(recordings) / seconds for seconds in times["regress"]]
    yield fact("regress -- python program.py: on a core", rates, "/s", clock="wall")


def _perform(perform: Performer, recording: Path) -> None:
    outcome = perform(recording)
    if outcome.status != "ok":
        raise AssertionError(outcome.detail)


def _bare(_: Path) -> None:
    subprocess.run([*_PROGRAM, "canned"], check=True, stdout=subprocess.DEVNULL)
