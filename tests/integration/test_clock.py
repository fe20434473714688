"""The clock: whole programs that read it, byte for byte, and the modules of a session."""

# What a time without a zone says is just the point.
# ruff: noqa: DTZ002, DTZ003, DTZ005, DTZ011

from __future__ import annotations

import datetime
import pickle
import sys
import time
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from time import time as imported_before
from types import ModuleType
from typing import Any

import pytest

import reenact
from reenact.boundaries.registry import PATCHES
from tests.integration.running import Theatre

READS = [
    name
    for name in (
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
        "localtime",
        "gmtime",
        "ctime",
        "asctime",
    )
    if hasattr(time, name)
]


def enact(path: Path, program: Callable[[], Any]) -> list[Any]:
    """What ``program`` gave when it was recorded, and when it was replayed."""
    found = []
    for mode in ("record", "replay"):
        with reenact.session(capture=path, mode=mode, strict=True):
            found.append(program())
    return found


def foreign(name: str, file: str, text: str) -> ModuleType:
    """A module as if it came from ``file``."""
    module = ModuleType(name)
    module.__file__ = file
    exec(text, vars(module))
    return module


# In a session


@pytest.mark.parametrize("name", READS)
def test_a_clock_says_again_what_it_said(name: str, tmp_path: Path) -> None:
    recorded, replayed = enact(tmp_path / "c", lambda: [getattr(time, name)() for _ in range(3)])
    assert replayed == recorded
    assert [type(one) for one in replayed] == [type(one) for one in recorded]


def test_the_zone_of_a_broken_down_time_is_recorded(tmp_path: Path) -> None:
    def program() -> Any:
        found = time.localtime()
        return found.tm_zone, found.tm_gmtoff, time.strftime("%Z %z")

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded


def test_a_clock_by_its_number(tmp_path: Path) -> None:
    def program() -> Any:
        return time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded


def test_with_a_time_given_nothing_is_drawn(tmp_path: Path) -> None:
    def program() -> Any:
        return (
            time.localtime(0),
            time.gmtime(1.5),
            time.ctime(2),
            time.strftime("%Y", time.gmtime(3)),
        )

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    with reenact.open_recording(tmp_path / "c") as source:
        assert len(source) == 0


def test_names_that_a_module_imported_before(tmp_path: Path) -> None:
    before = imported_before
    recorded, replayed = enact(tmp_path / "c", lambda: globals()["imported_before"]())
    assert replayed == recorded
    assert imported_before is before


def test_names_that_a_module_imports_meanwhile_are_put_right_at_the_end(tmp_path: Path) -> None:
    text = "from time import time, monotonic as m\nclass C:\n    now = time\n"
    with reenact.session(capture=tmp_path / "c", mode="record"):
        module: Any = foreign("meanwhile", str(tmp_path / "meanwhile.py"), text)
        sys.modules["meanwhile"] = module
        module.C().now()
    try:
        assert module.time is time.time
        assert module.m is time.monotonic
        assert module.C().now() <= time.time()
    finally:
        del sys.modules["meanwhile"]


def test_a_clock_is_no_method_and_can_be_pickled(tmp_path: Path) -> None:
    class Model:
        now = time.time
        converter = time.localtime

    with reenact.session(capture=tmp_path / "c", mode="record"):

        class Later:
            converter = time.localtime

        made: list[Any] = [Later(), Model()]
        assert made[0].converter(0) == made[1].converter(0)
        assert pickle.loads(pickle.dumps(time.time)) is time.time
        assert (time.time.__name__, time.time.__doc__) == (Model.now.__name__, Model.now.__doc__)


def _calendar() -> list[Any]:
    class Own(datetime.datetime):
        pass

    class Day(datetime.date):
        pass

    zone = timezone(timedelta(hours=5, minutes=30))
    return [
        datetime.datetime.now(),
        datetime.datetime.now(datetime.UTC),
        datetime.datetime.now(tz=zone),
        datetime.datetime.today(),
        datetime.date.today(),
        Own.now(),
        Own.now(zone),
        Day.today(),
    ]


def test_dates_say_again_what_they_said(tmp_path: Path) -> None:
    recorded, replayed = enact(tmp_path / "c", _calendar)
    assert replayed == recorded
    assert [type(one).__name__ for one in replayed] == [type(one).__name__ for one in recorded]
    assert [one.tzinfo for one in replayed[:4]] == [one.tzinfo for one in recorded[:4]]
    assert pickle.loads(pickle.dumps(replayed[:5])) == recorded[:5]


def test_dates_are_the_types_they_were_afterwards(tmp_path: Path) -> None:
    before = datetime.datetime.now
    enact(tmp_path / "c", _calendar)
    assert datetime.datetime.now == before
    assert "today" not in vars(datetime.datetime)
    assert datetime.datetime.now() <= datetime.datetime.now()
    with pytest.raises(TypeError, match="tzinfo"):
        datetime.datetime.now("x")  # type: ignore[arg-type]


def test_now_says_what_is_wrong_with_a_zone(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        with pytest.raises(TypeError, match="tzinfo"):
            datetime.datetime.now("x")  # type: ignore[arg-type]
        assert datetime.datetime.now.__name__ == "now"


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_utcnow(tmp_path: Path) -> None:
    recorded, replayed = enact(tmp_path / "c", lambda: datetime.datetime.utcnow())
    assert replayed == recorded
    assert replayed.tzinfo is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="from Python 3.12 on")
def test_utcnow_warns_as_ever(tmp_path: Path) -> None:
    session = reenact.session(capture=tmp_path / "c", mode="record")
    with session, pytest.warns(DeprecationWarning, match="timezone-aware"):
        datetime.datetime.utcnow()


# Whose call it is


def test_plumbing_reads_the_real_clock(tmp_path: Path) -> None:
    plumbing: Any = foreign("httpcore.x", "/lib/site-packages/httpcore/x.py", "import time\n")
    exec("def now(): return time.time()", vars(plumbing))
    recorded, replayed = enact(tmp_path / "c", lambda: plumbing.now())
    assert replayed > recorded


def test_a_library_is_served_while_it_lasts(tmp_path: Path) -> None:
    library: Any = foreign("somelib", "/lib/site-packages/somelib.py", "import time\n")
    exec("def now(): return time.time()", vars(library))
    with reenact.session(capture=tmp_path / "c", mode="record", strict=True):
        recorded = [library.now(), library.now()]
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert [library.now(), library.now()] == recorded
        assert library.now() > recorded[1]


# Sleeping


def test_a_replay_does_not_sleep(tmp_path: Path) -> None:
    slept: list[float] = []
    nap = _nap(slept)
    for mode in ("record", "replay"):
        with reenact.session(capture=tmp_path / "c", mode=mode, strict=True):
            nap(0.01)
            reenact.clock.sleep(0.001)
    with reenact.open_recording(tmp_path / "c") as source:
        assert [event.data["response"] for event in source] == [0.01, 0.001]


def _nap(slept: list[float]) -> Callable[[float], None]:
    def nap(seconds: float) -> None:
        getattr(time, "sleep")(seconds)  # noqa: B009 - the program under test sleeps, not the test
        slept.append(seconds)

    return nap


@pytest.mark.parametrize("naps", [0, 1, 3])
def test_another_number_of_naps_is_no_divergence(naps: int, tmp_path: Path) -> None:
    nap = _nap([])
    for mode, count in (("record", 2), ("replay", naps)):
        with reenact.session(capture=tmp_path / "c", mode=mode, strict=True) as session:
            for _ in range(count):
                nap(0.001)
            found = session.call("x", {}, lambda: "live")
            for _ in range(count):
                nap(0.001)
    assert found == "live"
    assert session.report().status == "ok"


# Explicitly


def test_the_explicit_clock_is_recorded_whoever_asks(tmp_path: Path) -> None:
    def program() -> Any:
        clock = reenact.clock
        return [
            clock.time(),
            clock.time_ns(),
            clock.monotonic(),
            clock.perf_counter(),
            clock.now(),
            clock.now(timezone(timedelta(hours=3))),
            clock.today(),
        ]

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    assert reenact.clock.now().tzinfo is datetime.UTC
    assert program()[0] > recorded[0]


# Whole programs


@pytest.mark.slow
def test_a_program_that_prints_the_time(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import asyncio, datetime, logging, sys, threading, time
        from dataclasses import dataclass, field
        from datetime import date, datetime as moment, timezone
        from time import perf_counter, sleep, time as now

        logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stdout)

        @dataclass
        class Note:
            at: float = field(default_factory=time.time)

        print(now(), perf_counter(), time.monotonic_ns(), time.strftime("%H:%M:%S"), Note())
        print(moment.now(), moment.now(timezone.utc), datetime.datetime.today(), date.today())
        start = perf_counter()
        sleep(0.02)
        print("slept", perf_counter() - start)
        logging.warning("%s", "logged")
        print(len({time.time() for _ in range(5000)}) > 1, time.time())

        def work(number, seconds):
            sleep(seconds)
            print("thread", number, time.time())

        threads = [threading.Thread(target=work, args=(n, 0.03 - n / 100)) for n in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

        async def main():
            async def wait(number):
                await asyncio.sleep(0.02 - number / 100)
                return number, time.time()
            for done in asyncio.as_completed([wait(0), wait(1)]):
                print(await done)
            return asyncio.get_running_loop().time() > 0

        print(asyncio.run(main()))
        """,
    )
    recorded = theatre.record("program.py")
    assert recorded.code == 0, recorded.err
    for environ in ({}, {"PYTHONHASHSEED": "7"}, {"LANG": "C"}, {"LC_ALL": "C.UTF-8"}):
        replayed = theatre.replay("program.py", **environ)
        assert replayed.own == recorded.own


@pytest.mark.slow
def test_a_draw_too_many_is_told_with_its_place(theatre: Theatre) -> None:
    theatre.write("program.py", "import time\nprint(time.time())\n")
    theatre.record("program.py")
    theatre.write("program.py", "import time\nprint(time.time())\nprint(time.time())\n")
    ran = theatre.replay("program.py")
    assert ran.code == 1
    assert "nondeterministic_underflow" in ran.err
    assert "program.py" in ran.err
    assert "line 3" in ran.err


def test_the_boundaries_of_a_session_are_gone_afterwards() -> None:
    assert PATCHES._users == 0
    assert time.time.__class__.__name__ == "builtin_function_or_method"
