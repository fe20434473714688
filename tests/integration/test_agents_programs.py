"""Agent runs in whole programs: recorded under ``reenact run``, and replayed without the server."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

import reenact
from tests.contract.server import Server
from tests.integration.agent_models import CLIENT, MODELS
from tests.integration.running import PATIENCE, SERVES, Theatre


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server({**SERVES, **MODELS})
    yield server
    server.stop()


@pytest.fixture
def agents(theatre: Theatre) -> Theatre:
    """A theatre whose programs can import a client, and what prints all of a run."""
    theatre.server.begin_act()
    theatre.write("client.py", CLIENT)
    theatre.write("shown.py", SHOWN)
    return theatre


SHOWN = """
    import os
    from client import AsyncClient, Client
    from reenact.agents import AnthropicMessages, Backoff, Bus, OpenAIChat, run_agent, run_agent_async
    from reenact.tools.tool import tool

    BASE = os.environ["SERVER"]

    @tool(name="get_weather")
    def weather(city: str) -> str:
        "The weather in a city."
        with open("ran", "a") as file:
            file.write(city + " ")
        return f"{city}: {os.getpid()} degrees"

    def show(result, bus=None):
        print(result.run_id.partition("-")[2], result.status, result.stop_reason, result.output)
        print(result.usage, result.last_usage, result.error and result.error.kind)
        for one in (*result.attempts, *result.messages):
            print(one if len(str(one)) < 500 else hash(str(one)))

    class Log:
        def __init__(self):
            self.lines = []

        def __call__(self, event):
            self.lines.append((event.seq, event.stream, sorted(event.data.items())))

        def show(self):
            for line in self.lines:
                print(*line)
"""

SYNC = """
    from shown import *

    for stream in (False, True):
        log = Log()
        model = OpenAIChat(Client(BASE), "m", stream=stream)
        show(run_agent(model, "weather in Oslo and Rome", tools=[weather], observers=[log]))
        log.show()
"""

ASYNC = """
    import asyncio
    from shown import *

    @tool(name="get_weather")
    async def slowly(city: str) -> str:
        await asyncio.sleep(0.01)
        return f"{city} at {asyncio.get_running_loop().time()}"

    async def one(stream, tools):
        log = Log()
        model = OpenAIChat(AsyncClient(BASE), "m", stream=stream)
        result = await run_agent_async(
            model, "weather in Bern and Bern", tools=tools, observers=[log]
        )
        return result, log

    async def main():
        for stream in (False, True):
            for tools in ([weather], [slowly]):
                result, log = await one(stream, tools)
                show(result)
                log.show()
        for result, log in await asyncio.gather(*(one(True, [slowly]) for _ in range(3))):
            show(result)
            log.show()

    asyncio.run(main())
"""

TROUBLE = """
    import asyncio, threading
    from shown import *

    model = OpenAIChat(Client(BASE), "m")
    quick = Backoff(retries=2, delay=0.05)

    # Retries, and then no more of them.
    show(run_agent(model, "busy 2, please", backoff=quick))
    show(run_agent(model, "busy 99, please", backoff=quick))

    # Another model.
    log = Log()
    gone = OpenAIChat(Client(BASE), "gone")
    show(run_agent(gone, "hello", fallbacks=[model], observers=[log]))
    show(run_agent(gone, "hello"))
    log.show()

    # Too long.
    log = Log()
    history = [{"role": "user", "text": "a" * 1000}, {"role": "assistant", "text": "b" * 1000}] * 3
    small = OpenAIChat(Client(BASE), "small")
    show(run_agent(small, "and now?", messages=history, observers=[log]))
    log.show()
    show(run_agent(small, "x" * 5000))

    # Tools that fail, and that are not there.
    @tool(name="get_weather")
    def broken(city: str) -> str:
        raise LookupError(f"no {city} in {os.getpid()}")

    show(run_agent(model, "weather in Oslo and Rome", tools=[broken]))
    show(run_agent(model, "weather in Oslo and Rome"))
    show(run_agent(model, "weather in Oslo and Rome", tools=[weather], max_turns=1))

    # Stopped before it begins, by a tool, and in the middle of a call.
    stop = threading.Event()

    @tool(name="get_weather")
    def stopping(city: str) -> str:
        stop.set()
        return city

    show(run_agent(model, "weather in Oslo and Rome", tools=[stopping], abort=stop))
    show(run_agent(model, "hello", abort=stop))
"""


@pytest.mark.parametrize("program", [SYNC, ASYNC, TROUBLE], ids=["sync", "async", "trouble"])
def test_a_program_is_replayed_byte_for_byte(agents: Theatre, program: str) -> None:
    place = agents.write("agent.py", program)
    agents.server.begin_act()
    recorded = agents.record(place)
    assert recorded.code == 0, recorded.err
    ran = (agents.folder / "ran").read_text("utf-8") if program is not TROUBLE else ""
    replayed = agents.replay(place)
    assert replayed.own == recorded.own
    assert ", 0 live, 0 unused" in replayed.summary
    if ran:
        assert (agents.folder / "ran").read_text("utf-8") == ran, "a tool ran in the replay"


def test_the_trouble_is_what_it_is_meant_to_be(agents: Theatre) -> None:
    ran = agents.run("--live", "--", sys.executable, agents.write("agent.py", TROUBLE))
    lines = ran.out.decode().splitlines()
    kinds = Counter(line.split()[-1] for line in lines if line.startswith("Usage("))
    assert (ran.code, ran.err) == (0, "")
    assert kinds == {
        "None": 7,
        "retry_limit": 1,
        "model_error": 1,
        "context_overflow": 1,
        "max_turns": 1,
    }


def test_a_changed_agent_diverges(agents: Theatre) -> None:
    place = agents.write("agent.py", SYNC)
    agents.record(place)
    agents.write("agent.py", SYNC.replace("Oslo", "Bonn"))
    ran = agents.replay(place)
    assert ran.code == 1
    assert "run_start" in ran.err or "Bonn" in ran.err


def test_run_marks_stand_beside_those_of_the_command(agents: Theatre) -> None:
    place = agents.write("agent.py", SYNC)
    agents.record(place)
    with reenact.open_recording(agents.folder / "c") as source:
        marks = [event.type for event in source if event.type in ("run_start", "run_end")]
    assert marks == ["run_start", "run_start", "run_end", "run_start", "run_end", "run_end"]


FULL = """
    import resource, signal, sys
    from shown import *

    sys.dont_write_bytecode = True  # Python 3.11 would keep a bytecode file that the limit has cut short.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    seen = []

    @tool(name="get_weather")
    def filling(city: str) -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return city

    result = run_agent(
        OpenAIChat(Client(BASE), "m"),
        "weather in Oslo",
        tools=[filling],
        observers=[seen.append],
        replay={"mode": "capture", "captureDir": "full"},
    )
    told = [event.data["message"] for event in seen if event.stream == "error"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(result.status, result.output, len(told) > 0, told == list(result.warnings))
"""


def test_a_full_disk_is_told_on_the_bus_and_the_run_goes_on(agents: Theatre) -> None:
    place = agents.write("agent.py", FULL)
    done = subprocess.run(
        [sys.executable, place],
        capture_output=True,
        cwd=agents.folder,
        env=agents.environ(),
        timeout=PATIENCE,
    )
    assert done.stdout.decode() == "ok I have heard: Oslo True True\n", done.stderr.decode()
    assert b"reenact: warning: " in done.stderr
