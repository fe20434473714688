"""A guided tour: record an agent, look, re-enact it offline, change it, damage a copy.

The agent is real, and so is what it talks to: a small web server on loopback that plays a model
and a weather service. Runs the real ``reenact`` command on real files in a folder of its own, which
is removed at the end. Exits 0 only if everything came out as it should.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import reenact

QUESTION = "Is it warm in Bern?"
API_KEY = "hunter2-is-not-a-password"

Message = dict[str, Any]


# What the agent talks to


class World(HTTPServer):
    """A model that asks for the weather once, and a weather service. Counts what reaches it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.requests = 0
        os.environ["WORLD_ADDRESS"] = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Answers(BaseHTTPRequestHandler):
    server: World

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer({"choices": [{"index": 0, "message": reply(asked["messages"])}]})

    def do_GET(self) -> None:
        self._answer({"city": self.path.rpartition("/")[2], "celsius": 21.0})

    def _answer(self, content: object) -> None:
        self.server.requests += 1
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def reply(messages: list[Message]) -> Message:
    last = messages[-1]
    if last["role"] == "tool":
        celsius = json.loads(last["content"])["celsius"]
        return {"role": "assistant", "content": f"Yes, it is {celsius:g} degrees."}
    function = {"name": "weather", "arguments": '{"city": "Bern"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# The agent: an ordinary program, with a boundary around what leaves it


@reenact.boundary(capability="llm.call", operation="small-1")
def ask(messages: list[Message]) -> Message:
    answer = fetch("/v1/chat/completions", {"model": "small-1", "messages": messages})
    message: Message = answer["choices"][0]["message"]
    return message


@reenact.boundary(capability="tool.call")
def weather(city: str) -> dict[str, float]:
    return {"celsius": look_up(city, API_KEY)["celsius"]}


@reenact.boundary
def look_up(city: str, api_key: str) -> Any:
    return fetch(f"/weather/{city}")


def fetch(path: str, body: object = None) -> Any:
    """JSON over HTTP, with the standard library."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(os.environ["WORLD_ADDRESS"] + path, data=data)
    with build_opener(ProxyHandler({})).open(request, timeout=10) as response:
        return json.load(response)


def run_agent(question: str) -> str:
    """Ask the model and do what it asks for, until it has nothing more to ask."""
    messages: list[Message] = [{"role": "user", "content": question}]
    while True:
        message = ask(messages)
        messages.append(message)
        if "tool_calls" not in message:
            return str(message["content"])
        for call in message["tool_calls"]:
            content = json.dumps(weather(**json.loads(call["function"]["arguments"])))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


# The tour


class Surprise(Exception):
    """Something did not come out as it should."""


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="reenact-demo-"))
    os.chdir(folder)
    os.environ["REENACT_CONFIG_DIR"] = str(folder / "config")
    os.environ.setdefault("COLUMNS", "100")
    world = World()
    try:
        tour(world)
    except Surprise as surprise:
        print(f"\nThe demo did not go as it should: {surprise}", file=sys.stderr)
        return 1
    finally:
        world.stop()
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    say(
        "That was Reenact",
        "Every exit code and output above was checked. README.md goes on from here.",
    )
    return 0


def tour(world: World) -> None:
    recorded = record(world)
    look()
    world.stop()
    re_enact(world, recorded)
    change()
    damage()


def record(world: World) -> str:
    say(
        "1. Record",
        "An agent asks a model, which wants to know the weather; a tool looks it up; the model "
        "answers. The\nmodel is a web server on this machine. What leaves the program has "
        "@reenact.boundary around it.",
    )
    with reenact.session(capture="run", mode="record", redaction="default"):
        answer = run_agent(QUESTION)
    print(f"\nQ: {QUESTION}\nA: {answer}")
    print(f"requests that reached the server: {world.requests}")
    expect(world.requests == 3, "two questions to the model and one to the weather service")
    return answer


def look() -> None:
    say("2. Look", "What the tool does is in a lane of its own. The API key was never written.")
    reenact_command("show run", shows=["small-1(", 'weather({"city": "Bern"})', "***REDACTED***"])
    on_disk = b"".join(path.read_bytes() for path in Path("run").rglob("*") if path.is_file())
    expect(b"celsius" in on_disk and API_KEY.encode() not in on_disk, "the key on the disk")


def re_enact(world: World, recorded: str) -> None:
    say(
        "3. Re-enact, offline",
        "The server is stopped. The agent runs again; what it calls is answered from the recording.",
    )
    before = world.requests
    expect(not is_reachable(), "the server answers although it was stopped")
    with reenact.session(capture="run", mode="replay", strict=True) as session:
        answer = run_agent(QUESTION)
    report = session.report()
    print(f"\nQ: {QUESTION}\nA: {answer}")
    print(f"calls answered from the recording: {report.served}, made for real: {report.live}")
    print(f"requests that reached the server: {world.requests - before}")
    expect(answer == recorded, "another answer than the recorded one")
    expect((report.served, report.live) == (3, 0), "calls that were not served")
    expect(world.requests == before, "a request in a replay")


def is_reachable() -> bool:
    """Outside of a session the agent really asks."""
    try:
        run_agent(QUESTION)
    except URLError:
        return False
    return True


def change() -> None:
    say("4. Change something", "The same recording, another question: not what was recorded.")
    session = reenact.session(capture="run", mode="replay", strict=True)
    try:
        with session:
            run_agent("Is it warm in Rome?")
    except reenact.DivergenceError as error:
        print(f"\n{error}")
    (found,) = session.divergences()
    expect(found.code == "event_payload_mismatch", f"another divergence: {found.code}")
    expect(found.json_path == "$.request.messages[0].content", "a difference elsewhere")


def damage() -> None:
    say("5. Damage a copy", "One bit of one byte, in the middle of the log.")
    shutil.copytree("run", "copy")
    log = Path("copy/events.jsonl")
    content = bytearray(log.read_bytes())
    place = content.index(b"celsius")
    content[place] ^= 1
    log.write_bytes(content)
    line = content[:place].count(b"\n") + 1
    print(f"\nflipped a bit in line {line} of copy/events.jsonl")
    reenact_command(
        "verify run copy", code=3, shows=["run: ok", f"copy: damaged at events.jsonl line {line}"]
    )


def reenact_command(words: str, *, code: int = 0, shows: list[str]) -> None:
    """Run the command as a user would, show it, and check what it did."""
    print(f"\n$ reenact {words}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "reenact", *words.split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    print(done.stdout, end="")
    if code:
        print(f"(exit code {done.returncode})")
    expect(done.returncode == code, f"'reenact {words}' exited with {done.returncode}, not {code}")
    for text in shows:
        expect(text in done.stdout, f"'reenact {words}' did not print {text!r}")
    expect(API_KEY not in done.stdout, "a secret on the screen")


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Surprise(otherwise)


def say(title: str, text: str) -> None:
    print(f"\n\n{title}\n{'-' * len(title)}\n{text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
