"""A program that does something else than it did: ``reenact run`` says so, whatever it hides."""

from __future__ import annotations

import sys

import pytest

from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

PROGRAM = """
    import sys
    from ask import ask
    print(ask("/json?first"))
    print(ask("/echo", '{"prompt": "Say hello", "n": 1}'))
    sys.exit(5)
"""
"""What was recorded. Others are replayed in its place."""

CHANGED = """ask("/echo", '{"prompt": "Say goodbye", "n": 1}')"""

FIRST = """
import asyncio, os, signal, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from ask import ask
ask("/json?first")
"""


@pytest.fixture(scope="module")
def recorded(stage: Theatre) -> Ran:
    stage.write("program.py", PROGRAM)
    ran = stage.record("program.py")
    assert ran.code == 5
    return ran


def _replay(stage: Theatre, text: str, *flags: str) -> Ran:
    """Replay the program ``text`` instead of the one that was recorded."""
    stage.write("changed.py", text)
    connections = stage.server.connections
    ran = stage.run("--replay", "c", *flags, "--", sys.executable, "changed.py")
    assert stage.server.connections == connections
    return ran


def test_a_changed_prompt(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, PROGRAM.replace("hello", "goodbye"), "--report", "r.json")
    assert ran.code == 1
    assert ran.out == recorded.out.splitlines(keepends=True)[0]
    assert "divergence: event_payload_mismatch, lane 0, event " in ran.err
    assert '$.request.body.prompt\n    - "Say hello"\n    + "Say goodbye"\n' in ran.err
    assert ran.err.count("divergence: ") == 1
    assert 'line 5, in <module>\n    print(ask("/echo"' in ran.err
    assert "/reenact/" not in ran.err
    assert ran.summary == "replayed 1 call in 1 lane, 0 live, 1 unused, 1 divergence"
    report = stage.report("r.json")
    assert (report["version"], report["status"], report["exitCode"]) == (1, "diverged", 1)
    assert report["counts"] == {
        "served": 1,
        "live": 0,
        "passed": {},
        "divergences": 1,
        "unused": 1,
    }
    (found,) = report["divergences"]
    assert found["code"] == "event_payload_mismatch"
    assert found["jsonPath"] == "$['request']['body']['prompt']"


SWALLOWING = {
    "bare except": f"""
try:
    {CHANGED}
except:
    print("went on", flush=True)
""",
    "BaseException, and exit 0": f"""
try:
    {CHANGED}
except BaseException:
    print("went on", flush=True)
sys.exit(0)
""",
    "in a thread": f"""
threading.excepthook = lambda *_: None
thread = threading.Thread(target=lambda: {CHANGED})
thread.start()
thread.join()
print("went on")
""",
    "in a future that nobody looks at": f"""
with ThreadPoolExecutor() as pool:
    pool.submit(lambda: {CHANGED})
print("went on")
""",
    "gather": f"""
async def main():
    await asyncio.gather(asyncio.to_thread(lambda: {CHANGED}), return_exceptions=True)
asyncio.run(main())
print("went on")
""",
    "os._exit": f"""
try:
    {CHANGED}
finally:
    print("went on", flush=True)
    os._exit(0)
""",
    "killed": f"""
try:
    {CHANGED}
finally:
    print("went on", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "in a child": f"""
code = '''from ask import ask; {CHANGED}'''
print(subprocess.call([sys.executable, "-c", code], stderr=subprocess.DEVNULL))
print("went on")
""",
    "in a forked child": f"""
if os.fork() == 0:
    try:
        {CHANGED}
    finally:
        os._exit(0)
os.wait()
print("went on")
""",
    "swallowed, then other calls": f"""
for _ in range(2):
    try:
        {CHANGED}
    except BaseException:
        pass
try:
    ask("/echo", '{{"prompt": "Say hello", "n": 1}}')
except BaseException as error:
    print("went on", type(error).__name__)
""",
}


FLAGS = {"in a child": ("--allow", "process.exec")}
"""A child that is not let through is not run: then it is its parent that diverges."""


@pytest.mark.parametrize("how", SWALLOWING)
def test_a_divergence_that_the_program_hides(how: str, recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, FIRST + SWALLOWING[how], *FLAGS.get(how, ()))
    assert ran.code == 1, ran
    assert b"went on" in ran.out, ran
    assert ran.err.count("divergence: ") == 1, ran
    assert "Say goodbye" in ran.err


def test_one_call_fewer(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, FIRST + "sys.exit(0)", "--report", "r.json")
    assert ran.code == 1
    assert "event_missing" in ran.err
    assert ran.summary == "replayed 1 call in 1 lane, 0 live, 1 unused, 1 divergence"
    (found,) = stage.report("r.json")["divergences"]
    assert found["code"] == "event_missing"


def test_one_call_more(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, PROGRAM.replace("sys.exit(5)", 'ask("/json?more")'))
    assert ran.code == 1
    assert ran.out == recorded.out
    assert "event_unexpected" in ran.err
    assert "/json?more" in ran.err


def test_lenient_lists_what_differs_and_keeps_the_exit_code(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, PROGRAM.replace("hello", "goodbye"), "--lenient", "--report", "r.json")
    assert ran.code == 5
    assert ran.out == recorded.out
    assert "event_payload_mismatch" in ran.err
    assert ran.summary == "replayed 2 calls in 1 lane, 0 live, 0 unused, 1 divergence"
    report = stage.report("r.json")
    assert (report["status"], report["exitCode"]) == ("diverged", 5)


@pytest.mark.parametrize("how", ["os._exit", "in a forked child", "in a thread"])
def test_lenient_lists_what_the_program_hides(how: str, recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, FIRST + SWALLOWING[how], "--lenient", "--report", "r.json")
    assert ran.code == 0
    assert b"went on" in ran.out
    assert ran.err.count("divergence: ") == 1 + ran.err.count("divergence: event_missing")
    assert "Say goodbye" in ran.err
    codes = [one["code"] for one in stage.report("r.json")["divergences"]]
    assert codes.count("event_payload_mismatch") + codes.count("event_unexpected") == 1


def test_lenient_with_calls_left_over(recorded: Ran, stage: Theatre) -> None:
    ran = _replay(stage, FIRST + "sys.exit(6)", "--lenient")
    assert ran.code == 6
    assert "event_missing" in ran.err


@pytest.mark.parametrize(
    "edit",
    [
        """
        import os, sys
        import httpx
        url = os.environ["SERVER"]
        client = httpx.Client(headers={"User-Agent": "other", "Authorization": "Bearer other"})
        print(client.get(f"{url}/json?first").text)
        print(client.post(f"{url}/echo", json={"n": 1, "prompt": "Say hello"}).text)
        sys.exit(5)
        """,
        """
        import sys
        from ask import ask
        def main():
            for path, body in [("/json?first", None), ("/echo", '{"n":1,"prompt":"Say hello"}')]:
                yield ask(path, body)
        print(*main(), sep="\\n")
        sys.exit(5)
        """,
    ],
    ids=["another client", "another shape"],
)
def test_a_refactored_program_replays(edit: str, recorded: Ran, stage: Theatre) -> None:
    assert _replay(stage, edit).own == recorded.own


def test_a_pool_of_processes_brings_the_divergence_home(theatre: Theatre) -> None:
    """The exception crosses the border between processes."""
    text = """
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        from ask import ask

        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            try:
                print(pool.submit(ask, "/json?one").result())
            except BaseException as error:
                print(type(error).__name__, error.divergence.code)
    """
    theatre.write("program.py", text)
    theatre.record("program.py")
    theatre.write("program.py", text.replace("one", "two"))
    ran = theatre.replay("program.py")
    assert ran.code == 1
    assert ran.out == b"DivergenceError event_payload_mismatch\n"
