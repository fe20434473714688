"""Programs that do something unusual to the ground that a recording stands on."""

from __future__ import annotations

import os
import sys

import pytest

from tests.integration.running import Theatre

pytestmark = pytest.mark.slow


def test_a_daemon_that_closes_every_descriptor(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os
        from ask import ask

        print(ask("/json?before"))
        os.closerange(3, 256)
        for fd in range(3, 256):
            try:
                os.close(fd)
            except OSError:
                pass
        files = [os.open(f"new{number}", os.O_RDWR | os.O_CREAT) for number in range(20)]
        print(ask("/json?after"))
        if not os.fork():
            os._exit(0)
        os.wait()
        print([os.fstat(fd).st_size for fd in files])
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.out.endswith(str([0] * 20).encode() + b"\n")
    assert [path for _, path in theatre.asked()] == ["/json?after", "/json?before"]


def test_a_stack_that_is_looked_for_and_not_there(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        try:
            import pycurl
        except ImportError as error:
            print(error)
        """,
    )
    assert theatre.check("program.py").own == (0, b"No module named 'pycurl'\n", "")


def test_forgotten_generators_shift_nothing(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import asyncio, os
        import httpx

        async def lines(client):
            async with client.stream("GET", os.environ["SERVER"] + "/lines?count=3") as answer:
                async for line in answer.aiter_lines():
                    yield line

        async def words(client):
            async for line in lines(client):
                yield line.upper()

        async def first(client):
            async for word in words(client):
                return word

        async def main():
            for _ in range(2):
                async with httpx.AsyncClient() as client:
                    print(await asyncio.gather(*(first(client) for _ in range(3))))

        asyncio.run(main())
        """,
    )
    theatre.record("program.py")
    for _ in range(3):
        assert theatre.replay("program.py").code == 0


def test_workers_that_take_from_one_queue(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import queue, threading
        from ask import ask

        work, done = queue.Queue(), queue.Queue()

        def loop(name):
            while (number := work.get()) is not None:
                done.put((name, number, ask(f"/json?n={number}")))

        threads = [threading.Thread(target=loop, args=(name,)) for name in range(4)]
        for thread in threads: thread.start()
        for number in range(10): work.put(number)
        for _ in threads: work.put(None)
        print([done.get() for _ in range(10)])
        """,
    )
    recorded = theatre.record("program.py")
    for _ in range(3):
        assert theatre.replay("program.py").own == recorded.own


def test_a_divergence_that_somebody_waits_for_ends_the_run(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import sys, threading
        from ask import ask

        done = threading.Event()

        def work():
            ask("/json?" + "".join(sys.argv[1:]))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        done.wait()
        """,
    )
    theatre.record("program.py", "a")
    ran = theatre.replay("program.py", "b")
    assert ran.code == 1
    assert "event_payload_mismatch" in ran.err
    assert "was ended" in ran.err


_NO_TEXT = os.fsdecode(b"caf\xe9 \xff")
"""A name in an old encoding: for the system as good as any."""


def test_a_folder_and_an_argument_that_are_no_text(theatre: Theatre) -> None:
    folder = theatre.folder / f"a folder {_NO_TEXT}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("names are text here")
    inside = Theatre(theatre.server, folder)
    inside.write(
        "program.py",
        """
        import os, sys
        from ask import ask
        print([os.fsencode(word) for word in sys.argv], ask(f"/json?{len(sys.argv)}"))
        """,
    )
    recorded = inside.check("program.py", _NO_TEXT)
    assert repr(os.fsencode(_NO_TEXT)).encode() in recorded.out

    words = ("--replay", "c", "--report", "r.json", "--", sys.executable, "program.py")
    diverged = inside.run(*words, _NO_TEXT[::-1], _NO_TEXT)
    assert diverged.code == 1
    assert r'argument 1 is "\\xff \\xe9fac", and was "caf\\xe9 \\xff"' in diverged.err
    assert inside.report("r.json")["status"] == "diverged"


def test_a_locale_in_which_no_name_is_text(theatre: Theatre) -> None:
    """It is the recording that says which locale a replay has, and not where it stands."""
    folder = theatre.folder / "Aufführung"
    folder.mkdir()
    inside = Theatre(theatre.server, folder)
    inside.write(
        "prögramm.py",
        """
        import sys
        from ask import ask
        print(len(sys.argv), ask("/json"))
        """,
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = (sys.executable, "prögramm.py", "ü")
    for name, first, second in (("ä", plain, {}), ("ö", {}, plain)):
        recorded = inside.record(*command, name=name, **first)
        replayed = inside.replay(*command, name=name, **second)
        assert (recorded.code, replayed.out) == (0, recorded.out)
        assert "note" not in replayed.err
