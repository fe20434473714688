"""Whole programs with tools: recorded, replayed without anybody, and run again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from tests.contract.server import Exchange, Handler, Server
from tests.integration.running import SERVES, Theatre
from tests.unit.policy.sets import POLICY, put_set

PAGE = b"<title>T</title><nav>no</nav><main><h1>Head</h1><p>Number %s</p></main>"


def _page(exchange: Exchange) -> None:
    body = PAGE % exchange.number.encode()
    exchange.answer("200 OK", body, ("Content-Type", "text/html"))


def _search(exchange: Exchange) -> None:
    found = {"title": exchange.number, "url": "https://a.example/", "description": "d"}
    body = json.dumps({"web": {"results": [found]}}).encode()
    exchange.answer("200 OK", body, ("Content-Type", "application/json"))


def _moved(exchange: Exchange) -> None:
    exchange.answer("302 Go", b"", ("Location", "/page"))


HANDLERS: dict[str, Handler] = {
    **SERVES,
    "/page": _page,
    "/res": _search,
    "/moved": _moved,
}


@pytest.fixture(scope="module")
def web() -> Iterator[Server]:
    server = Server(HANDLERS)
    yield server
    server.stop()


@pytest.fixture
def theatre(web: Server, tmp_path: Path) -> Theatre:
    return Theatre(web, tmp_path)


def _rerun(theatre: Theatre, program: str) -> Any:
    """Replay ``program`` with all its tools run again."""
    again = {"boundaries": [{"capability": "tool.call", "action": "re-execute"}]}
    put_set(theatre.folder, {**POLICY, "id": "again", **again})
    connections = theatre.server.connections
    words = ("--replay", "c", "--policy", "again", "--", sys.executable, program)
    ran = theatre.run(*words)
    assert theatre.server.connections == connections, "the replay went to the server"
    return ran


def _hash(folder: Path) -> str:
    with reenact.open_recording(folder) as source:
        return source.manifest().integrity.content_hash


def _data(folder: Path, kind: str) -> list[dict[str, Any]]:
    with reenact.open_recording(folder) as source:
        return [event.data for event in source if event.type == kind]


TOOLS = """
    import asyncio, time, uuid
    from collections.abc import AsyncIterator, Iterator
    from dataclasses import dataclass
    from ask import ask
    from reenact.tools.tool import tool

    @dataclass
    class Found:
        text: str
        at: float

    @tool
    def look(path: str) -> Found:
        return Found(ask(path), time.time())

    @tool
    async def look_later(path: str) -> str:
        await asyncio.sleep(0.01)
        return ask(path) + str(uuid.uuid4())

    @tool
    def look_twice(path: str) -> Iterator[str]:
        yield ask(path)
        yield ask(path) + look(path).text

    @tool
    def count(path: str) -> Iterator[int]:
        while True:
            yield len(ask(path))

    @tool
    async def look_on(path: str) -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(0)
            yield ask(path)
"""

PROGRAM = """
    import asyncio, sys, threading
    from tools import look, look_later, look_on, look_twice

    async def main():
        print(await asyncio.gather(*(look_later("/json") for _ in range(4))))
        print(await asyncio.gather(*(look.acall({"path": "/json"}, call_id=str(n)) for n in range(3))))
        pieces = look_on("/json")
        print(await anext(pieces), await anext(pieces))
        await pieces.aclose()

    print(look("/json"))
    print(list(look_twice("/json")))
    asyncio.run(main())
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: look("/json")})) for n in range(3)]
    for one in threads: one.start()
    for one in threads: one.join()
    print(sorted(found.items()))
    print("err", file=sys.stderr)
"""


def test_tools_of_every_kind_in_one_program(theatre: Theatre) -> None:
    theatre.write("tools.py", TOOLS)
    theatre.write("program.py", PROGRAM)
    recorded = theatre.check("program.py")
    assert recorded.code == 0
    assert len(_data(theatre.folder / "c", "tool_call")) == 14
    rerun = _rerun(theatre, "program.py")
    assert rerun.own == recorded.own
    assert ", 0 live, 0 unused" in rerun.summary


def test_a_stub_writes_no_file_and_asks_nobody(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess, sys
        from ask import ask
        from reenact.tools.tool import tool

        @tool
        def work(name: str) -> str:
            open("ran", "a").write("x")
            return ask("/json") + subprocess.check_output("date +%N", shell=True, text=True)

        print(work("a"), work("b"))
        """,
    )
    theatre.check("program.py")
    assert theatre.folder.joinpath("ran").read_text("utf-8") == "xx"
    assert ", 0 live, 0 unused" in _rerun(theatre, "program.py").summary
    assert theatre.folder.joinpath("ran").read_text("utf-8") == "xxxx"


def test_other_arguments_end_a_strict_replay(theatre: Theatre) -> None:
    theatre.write("tools.py", TOOLS)
    theatre.write("program.py", "import sys; from tools import look; print(look(sys.argv[1]))")
    theatre.record(sys.executable, "program.py", "/json")
    ran = theatre.run("--replay", "c", "--", sys.executable, "program.py", "/json?x=1")
    assert ran.code == 1
    assert "$.args.path" in ran.err


# The ready-made ones


READY = """
    import os
    from reenact import tools
    from reenact.tools.web_tools import web_fetcher
    from reenact.tools.web_tools import Brave
    from reenact.tools.safe_http import Limits
    from reenact.tools.web_tools import web_searcher

    SERVER = os.environ["SERVER"]
    fetch = web_fetcher(Limits(private_addresses=True))
    search = web_searcher(Brave(SERVER))

    def told(call, *args, **given):
        try:
            print(call(*args, **given))
        except tools.ToolFailed as error:
            print(type(error).__name__, error, error.details)

    told(tools.exec, "date +%N; echo err >&2; exit 3")
    told(tools.exec, "echo early; sleep 600", timeout=0.3)
    told(tools.exec, "kill -15 $$")
    told(tools.exec, "no-such-command")
    told(tools.exec, "echo $WORD", env={"WORD": "hi"}, workdir="/")
    told(fetch, SERVER + "/page")
    told(fetch, SERVER + "/moved", extractMode="text", maxChars=200)
    told(fetch, SERVER + "/status/404")
    told(search, "otters")
"""


def test_ready_made_tools_are_not_run_in_a_replay(theatre: Theatre) -> None:
    theatre.write("program.py", READY)
    recorded = theatre.check("program.py", BRAVE_API_KEY="key-of-mine-123456")
    lines = recorded.out.decode()
    assert "(Command exited with code 3)" in lines
    assert "Command timed out after 0.3 seconds" in lines
    assert "Command aborted by signal SIGTERM" in lines
    assert "'count': 1" in lines
    results = _data(theatre.folder / "c", "tool_result")
    failed = [number for number, one in enumerate(results) if not one["ok"]]
    assert (len(results), failed) == (9, [1, 2, 3, 7])


def test_run_again_they_give_the_same_but_for_durations(theatre: Theatre) -> None:
    theatre.write("program.py", READY)
    recorded = theatre.record("program.py", BRAVE_API_KEY="key-of-mine-123456")
    rerun = _rerun(theatre, "program.py")
    assert rerun.code == 0, rerun.err
    assert ", 0 live, 0 unused" in rerun.summary
    assert rerun.out != recorded.out, "durations are those of now"
    assert _steady(rerun.out) == _steady(recorded.out)


def _steady(out: bytes) -> str:
    import re

    words = r"'(durationMs|tookMs|fetchedAt)': [^,}]*"
    return re.sub(words, "", out.decode())


STEADY = """
    import os
    from reenact import tools
    from reenact.tools.web_tools import web_fetcher
    from reenact.tools.safe_http import Limits

    fetch = web_fetcher(Limits(private_addresses=True))
    print(tools.exec("echo a; exit 3")["aggregated"])
    try:
        tools.exec("kill -15 $$")
    except tools.ToolFailed as error:
        print(error.details["reason"])
    print(fetch(os.environ["SERVER"] + "/page")["length"])
"""


def test_two_recordings_of_one_program_have_the_same_content_hash(theatre: Theatre) -> None:
    theatre.write("program.py", STEADY)
    theatre.server.begin_act()
    theatre.record("program.py", name="one")
    theatre.server.begin_act()
    theatre.record("program.py", name="two")
    volatile = [one.get("volatile") for one in _data(theatre.folder / "one", "tool_result")]
    assert volatile == [
        ["$.result.durationMs"],
        ["$.error.state.details.durationMs"],
        ["$.result.fetchedAt", "$.result.tookMs"],
    ]
    assert _hash(theatre.folder / "one") == _hash(theatre.folder / "two")


# Programs that do not end by themselves


def test_what_a_tool_had_given_when_the_program_was_killed_is_recorded(theatre: Theatre) -> None:
    theatre.write("tools.py", TOOLS)
    theatre.write(
        "program.py",
        """
        import os, signal
        from tools import count

        pieces = count("/json")
        print(next(pieces), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    recorded = theatre.record("program.py")
    (result,) = _data(theatre.folder / "c", "tool_result")
    assert (result["ok"], result["ended"]) == (False, "unfinished")
    assert f"{result['result']['chunks'][0]}\n".encode() == recorded.out
    replayed = theatre.replay("program.py")
    assert replayed.own == recorded.own


def test_reading_on_where_the_program_was_killed_is_a_divergence(theatre: Theatre) -> None:
    theatre.write("tools.py", TOOLS)
    theatre.write(
        "program.py",
        """
        import os, signal, sys
        from tools import count

        for piece in count("/json"):
            print(piece, flush=True)
            if not os.path.exists("go-on"):
                os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    recorded = theatre.record("program.py")
    theatre.write("go-on", "")
    ran = theatre.replay("program.py")
    assert (ran.code, ran.out) == (1, recorded.out)
    assert "was killed here, in the middle of the answer" in ran.err
