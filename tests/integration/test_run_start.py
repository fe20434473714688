"""What a process has before the first line of its program: little, and all that it needs later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reenact.runs.plan import INJECT
from tests.integration.running import PATIENCE, Theatre

pytestmark = pytest.mark.slow

LATE = ("asyncio", "concurrent.futures", "logging", "queue", "ssl", "subprocess", "tempfile")
"""Modules that few programs need, and that Reenact needs for them only."""


def test_what_the_program_does_not_import_is_not_there(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        f"""
        import sys
        print([name for name in {LATE} if name in sys.modules], "hyperscan" in sys.modules)
        """,
    )
    recorded = theatre.record("program.py")
    replayed = theatre.replay("program.py")
    assert (replayed.code, replayed.out) == (0, b"[] False\n")
    assert b"asyncio" not in recorded.out


@pytest.mark.parametrize("injected", [False, True], ids=["plain", "injected"])
def test_outside_of_a_run_nothing_is_loaded(injected: bool) -> None:
    """The folder stays in the environment of processes that outlive their run."""
    code = "import sys; print(sorted(sys.modules), sys.path)"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def started(**more: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command,
            env={**environ, **more},
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=PATIENCE,
        ).stdout

    more = {"PYTHONPATH": INJECT} if injected else {}
    assert started(**more) == started()


def test_nobody_finds_the_module_that_brought_us_in(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import gc, sys
        try:
            import sitecustomize
        except ImportError as error:
            print(error.name, "sitecustomize" in sys.modules, gc.isenabled())
        """,
    )
    assert theatre.check("program.py").out == b"sitecustomize False True\n"


def test_libraries_that_come_late_are_covered_all_the_same(theatre: Theatre) -> None:
    """Tasks, jobs, timers, queues and time-outs, each imported after the first call."""
    theatre.write(
        "program.py",
        """
        from ask import ask
        print(ask("/json?first"))

        from concurrent.futures import ThreadPoolExecutor, as_completed
        with ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(ask, f"/turn?of=3&n={n}") for n in range(3)]
            for job in as_completed(jobs):
                print("job", job.result())
                if job is not jobs[0]:
                    ask("/next")

        import queue
        try:
            queue.Queue().get(timeout=0.01)
        except queue.Empty:
            print("in vain")

        import asyncio

        async def main():
            async def one(name):
                await asyncio.sleep(0.001)
                return await asyncio.to_thread(ask, f"/json?{name}")

            names = await asyncio.gather(*(one(name) for name in "abc"))
            print(len(names))

        asyncio.run(main())
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.code == 0, recorded.err
    lanes = {lane for lane, _ in theatre.asked()}
    assert len(lanes) == 7


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "line",
    [
        "from concurrent.futures import ProcessPoolExecutor",
        "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor",
        "from concurrent.futures.process import ProcessPoolExecutor",
        "import concurrent.futures.thread, asyncio.base_events, queue, subprocess",
        "import asyncio, concurrent.futures.process, multiprocessing.pool",
    ],
    ids=["processes", "both", "processes alone", "parts", "others"],
)
def test_they_are_imported_in_any_order(line: str, theatre: Theatre) -> None:
    theatre.write("program.py", f"{line}\nprint('imported')")
    recorded = theatre.check("program.py")
    assert (recorded.code, recorded.out) == (0, b"imported\n"), recorded.err
