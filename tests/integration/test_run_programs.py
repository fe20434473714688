"""Whole programs, unchanged, under ``reenact run``: recorded, and replayed without a server."""

from __future__ import annotations

import re
import sys

import pytest

from tests.integration.running import Theatre

pytestmark = pytest.mark.slow

# Threads, tasks and executors, with every client


def test_every_client_in_threads_tasks_and_executors(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import asyncio, os, sys, threading
        from concurrent.futures import ThreadPoolExecutor, as_completed
        from urllib.request import urlopen
        import aiohttp, httpx, requests

        url = os.environ["SERVER"]

        def by_requests(number):
            return requests.post(f"{url}/json?r={number}", json={"n": number}).json()

        async def by_aiohttp(session, number):
            async with session.get(f"{url}/json?a={number}") as answer:
                return await answer.json()

        async def main():
            async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:
                first = await asyncio.gather(*(by_aiohttp(session, n) for n in range(3)))
                tasks = [asyncio.create_task(client.get(f"{url}/json?h={n}")) for n in range(3)]
                for task in asyncio.as_completed(tasks):
                    print((await task).text)
                inside = await asyncio.to_thread(requests.get, f"{url}/json?inside")
                print(first, inside.text)

        print(urlopen(f"{url}/json?first").read())
        asyncio.run(main())
        with ThreadPoolExecutor(4) as pool:
            for done in as_completed(pool.submit(by_requests, n) for n in range(6)):
                print(done.result())
        said = []
        threads = [
            threading.Thread(target=lambda: said.append(httpx.get(f"{url}/json?t").text))
            for _ in range(4)
        ]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(said)
        sys.exit(7)
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.code == 7
    assert recorded.summary.startswith("recorded 18 calls in ")
    assert recorded.out.count(b"target") == 18


def test_answers_that_come_out_of_order_come_so_again(theatre: Theatre) -> None:
    """The server answers the last one first, and the next one when that has arrived."""
    theatre.write(
        "program.py",
        """
        import asyncio, os
        import httpx

        async def main():
            url = os.environ["SERVER"]
            async with httpx.AsyncClient(timeout=60) as client:
                asking = [client.get(f"{url}/turn?of=6&n={n}") for n in range(6)]
                for task in asyncio.as_completed(asking):
                    print((await task).text)
                    await client.get(f"{url}/next")

        asyncio.run(main())
        """,
    )
    turns = theatre.check("program.py").out.split()
    assert turns == [b"5", b"4", b"3", b"2", b"1", b"0"]


# How a program ends


def test_an_uncaught_exception_is_shown_as_usual(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        from ask import ask

        def fail():
            raise ValueError(ask("/json"))

        fail()
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.code == 1
    assert recorded.err.startswith("Traceback (most recent call last):\n")
    assert "\nValueError: {" in recorded.err
    assert "reenact" not in recorded.own[2]


@pytest.mark.parametrize(
    "ending, code",
    [
        ("sys.exit(3)", 3),
        ("sys.exit('words')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143),
    ],
    ids=["exit", "exit with words", "signal"],
)
def test_it_ends_as_it_ended(ending: str, code: int, theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        f"""
        import os, signal, sys
        from ask import ask
        print(ask("/json"), flush=True)
        {ending}
        """,
    )
    assert theatre.check("program.py").code == code


def test_calls_at_the_very_end_are_recorded(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import atexit, threading
        from ask import ask

        main = threading.current_thread()

        def last():
            main.join()
            print("thread", ask("/json?thread"))

        atexit.register(lambda: print("atexit", ask("/json?atexit")))
        threading.Thread(target=last).start()
        """,
    )
    assert theatre.check("program.py").summary.startswith("recorded 2 calls in 2 lanes")


def test_strings_hash_as_they_did(theatre: Theatre) -> None:
    theatre.write("program.py", "print(set('abcdefghijklmnop'), hash('x'))")
    recorded = theatre.record("program.py")
    assert theatre.replay("program.py").own == recorded.own
    assert theatre.record("program.py", name="again").out != recorded.out


# How a program is started


def test_a_module_with_arguments(theatre: Theatre) -> None:
    theatre.write("package/__init__.py", "")
    theatre.write(
        "package/__main__.py",
        """
        import sys
        from ask import ask
        print(sys.argv[1:], sys.flags.optimize, __name__, ask("/json"))
        """,
    )
    command = (sys.executable, "-O", "-m", "package", "--capture", "x y")
    recorded = theatre.check(*command)
    assert recorded.out.startswith(b"['--capture', 'x y'] 1 __main__ {")


def test_a_script_with_arguments_gets_them(theatre: Theatre) -> None:
    program = theatre.write("program.py", "import sys; print(sys.argv)")
    recorded = theatre.check(program, "--", "-q", "--replay")
    assert recorded.out.decode() == f"['{program}', '--', '-q', '--replay']\n"


def test_a_program_reads_its_standard_input(theatre: Theatre) -> None:
    theatre.write("program.py", "from ask import ask\nprint(input(), input(), ask('/json'))")
    recorded = theatre.check("program.py", told=b"one\ntwo\n")
    assert recorded.out.startswith(b"one two {")


def test_a_line_of_code(theatre: Theatre) -> None:
    code = "from ask import ask; print(ask('/json'), __name__)"
    recorded = theatre.check(sys.executable, "-c", code)
    assert recorded.out.endswith(b"} __main__\n")


def test_a_script_that_names_its_interpreter(theatre: Theatre) -> None:
    script = theatre.write(
        "bin/tool", f"#!{sys.executable}\nfrom ask import ask\nprint(ask('/json'))"
    )
    script.chmod(0o755)
    recorded = theatre.check(script, PYTHONPATH=str(theatre.folder))
    assert b"target" in recorded.out


def test_pytest(theatre: Theatre) -> None:
    theatre.write(
        "test_it.py",
        """
        import os
        import requests

        def test_one():
            print(requests.get(os.environ["SERVER"] + "/json").json()["n"], "seen")

        def test_two():
            status = requests.get(os.environ["SERVER"] + "/json").status_code
            assert status == 500
        """,
    )
    # The peer of `make bench` brings a plugin that imports grpc, which a replay refuses.
    without = [f"-pno:{name}" for name in ("randomly", "cacheprovider", "cassetter")]
    command = (sys.executable, "-m", "pytest", *without, "-rP")
    recorded = theatre.record(*command, "test_it.py")
    replayed = theatre.replay(*command, "test_it.py")
    assert (recorded.code, replayed.code) == (1, 1)
    assert _without_times(replayed.out) == _without_times(recorded.out)
    assert b"seen" in replayed.out
    assert replayed.summary == "replayed 2 calls in 1 lane, 0 live, 0 unused"


def _without_times(out: bytes) -> bytes:
    return re.sub(rb"=* in [0-9.]+s =*|=+", b"=", out)
