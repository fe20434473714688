"""Python processes that a program starts take part in its recording."""

from __future__ import annotations

import sys

import pytest

from tests.integration.running import Theatre

pytestmark = pytest.mark.slow

CHILD = """
    import sys
    from ask import ask
    print(f"child {sys.argv[1:]}", ask("/json?child"), flush=True)
"""


def test_what_a_python_child_asks_is_recorded_and_replayed(theatre: Theatre) -> None:
    """However it is started, with whatever environment."""
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import asyncio, os, subprocess, sys
        from ask import ask

        async def asynchronous():
            child = await asyncio.create_subprocess_exec(sys.executable, "child.py", "async")
            print(await child.wait(), flush=True)

        print(ask("/json?before"), flush=True)
        python = sys.executable
        subprocess.run([python, "child.py", "run"], check=True)
        subprocess.run([python, "child.py", "env"], env={"SERVER": os.environ["SERVER"]})
        print(subprocess.check_output([python, "child.py", "output"], text=True), flush=True)
        asyncio.run(asynchronous())
        os.spawnv(os.P_WAIT, python, [python, "child.py", "spawnv"])
        print(ask("/json?after"))
        """,
    )
    recorded = theatre.check("program.py")
    for name in ("run", "env", "output", "async", "spawnv"):
        assert f"child ['{name}'] {{".encode() in recorded.out
    asked = theatre.asked()
    assert [path for _, path in asked].count("/json?child") == 5
    assert len({lane for lane, _ in asked}) == 6


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        f"""
        import multiprocessing
        from ask import ask

        def work(queue, name):
            queue.put(ask(f"/json?{{name}}"))

        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            queue = context.Queue()
            for name in ("one", "two"):
                child = context.Process(target=work, args=(queue, name))
                child.start()
                print(queue.get(), flush=True)
                child.join()
                print(child.exitcode)
            print(ask("/json?end"))
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.out.count(b"target") == 3
    assert recorded.summary.startswith("recorded 3 calls in 3 lanes")


def test_a_process_for_many_jobs(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from ask import ask

        def work(number):
            return ask(f"/json?{number}")

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                for answer in pool.map(work, range(3)):
                    print(answer)
        """,
    )
    assert theatre.check("program.py").out.count(b"target") == 3


def test_a_program_that_becomes_another_one(theatre: Theatre) -> None:
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import os, sys
        from ask import ask
        print(ask("/json?before"), flush=True)
        os.execv(sys.executable, [sys.executable, "child.py", "now"])
        """,
    )
    recorded = theatre.check("program.py")
    assert b"child ['now']" in recorded.out
    assert [path for _, path in theatre.asked()] == ["/json?before", "/json?child"]


def test_the_order_of_children_does_not_matter(theatre: Theatre) -> None:
    """Two run at the same time; each gets its own answers."""
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import subprocess, sys
        start = lambda n: subprocess.Popen([sys.executable, "child.py", n], stdout=subprocess.PIPE)
        children = [start("one"), start("two"), start("three")]
        for child in children:
            print(child.communicate()[0])
        """,
    )
    assert theatre.check("program.py").out.count(b"target") == 3


def test_a_shell_in_between_is_stubbed_with_what_it_starts(theatre: Theatre) -> None:
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import os, sys
        from ask import ask
        print(ask("/json?before"), flush=True)
        print(os.system(f"{sys.executable} child.py"))
        """,
    )
    theatre.check("program.py")
    assert [lane for lane, _ in theatre.asked()] == ["0", "0.1"]


def test_a_shell_that_is_let_through_starts_processes_that_take_part(theatre: Theatre) -> None:
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import os, sys
        from ask import ask
        print(ask("/json?before"), flush=True)
        print(os.system(f"{sys.executable} child.py"))
        """,
    )
    command = ("--allow", "process.exec", "--", sys.executable, "program.py")
    recorded = theatre.run("--capture", "c", *command)
    assert recorded.summary.startswith("recorded 2 calls in 2 lanes")
    connections = theatre.server.connections
    replayed = theatre.run("--replay", "c", "--report", "r.json", *command)
    assert theatre.server.connections == connections
    assert replayed.own == recorded.own
    assert "1 passed through process.exec" in replayed.summary
    assert theatre.report("r.json")["counts"]["passed"] == {"process.exec sh": 1}


@pytest.mark.parametrize("start", ["fork", "subprocess"])
def test_a_child_is_started_while_an_answer_is_being_read(start: str, theatre: Theatre) -> None:
    """What the parent had read so far comes before what the child does."""
    theatre.write("child.py", CHILD)
    theatre.write(
        "program.py",
        """
        import os, subprocess, sys
        from urllib.request import urlopen
        from ask import ask

        def fork():
            if os.fork() == 0:
                print(ask("/json?child"), flush=True)
                os._exit(0)
            os.wait()

        with urlopen(os.environ["SERVER"] + "/lines?count=3") as answer:
            print(answer.readline(), flush=True)
            if sys.argv[1] == "fork":
                fork()
            else:
                subprocess.run([sys.executable, "child.py"])
            print(answer.read())
        print(ask("/json?after"))
        """,
    )
    recorded = theatre.check("program.py", start)
    assert recorded.code == 0
    assert recorded.out.count(b"target") == 2
    assert recorded.out.count(b"line") == 3
