"""A guided tour: record an unchanged agent, fork it, re-enact it offline, change it, damage a copy; then
replay an order of a shop with another amount, and prove who did it.

The programs are ``agent.py`` and ``shop.py``, and what they talk to is a small web server on loopback that
plays two models, a weather service, a restaurant and a bank. Runs the real ``reenact`` command on real files
in a folder of its own, which is removed at the end. Exits 0 only if everything came out as it should.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
from world import WORDS, World

PROGRAMS = [Path(__file__).with_name(name) for name in ("agent.py", "shop.py")]
QUESTION = "Book a table in Bern if it is warm"
OTHER_QUESTION = "Book a table in Rome if it is warm"
ANSWER = f"{WORDS['small-1']}\n"
OTHER_ANSWER = f"{WORDS['large-1']}\n"
API_KEY = "sk-demo-hunter2-is-not-a-password"
PASSWORD = "correct horse battery staple"
PATIENCE = 60
"""Seconds until something that is waited for counts as not coming."""


T = TypeVar("T")


class Surprise(Exception):
    """Something did not come out as it should."""


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="reenact-demo-"))
    os.chdir(folder)
    for program in PROGRAMS:
        shutil.copy(program, program.name)
    world = World()
    os.environ.update(
        COLUMNS=os.environ.get("COLUMNS", "100"),
        MODEL_API_KEY=API_KEY,
        MODEL_SERVER=world.address,
        REENACT_CONFIG_DIR="config",
    )
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
    record(world)
    look()
    fork(world)
    world.stop()
    re_enact(world)
    change(world)
    damage()
    exchange()


def record(world: World) -> None:
    say(
        "1. Record",
        "agent.py asks a model, which has two tools: the weather, and booking a table. It prints the\n"
        "answer word by word. The model is a web server on this machine. The program knows nothing of\n"
        "Reenact.",
    )
    printed = agent("--capture run", QUESTION, shows=["recorded 5 calls"])
    expect(printed == ANSWER, "another answer than the model gives")
    print(f"requests that reached the server: {world.requests}, tables booked: {world.tables}")
    expect((world.requests, world.tables) == (5, 1), "three questions to the model, and two tools")


def look() -> None:
    say("2. Look", "Every question, every tool, every answer. The API key was never written.")
    command("show run --grep http", shows=["llm_request", "POST", "GET", "-> 200"])
    on_disk = b"".join(path.read_bytes() for path in Path("run").rglob("*") if path.is_file())
    expect(b"celsius" in on_disk and API_KEY.encode() not in on_disk, "the key on the disk")


def fork(world: World) -> None:
    say(
        "3. Fork, with another model",
        "What if another model had given the last answer? Everything before is re-enacted: no model is\n"
        "asked again, no second table is booked. Then one question is asked for real.",
    )
    words = f"fork run --at last-llm --model large-1 --into fork -- python agent.py '{QUESTION}'"
    printed = command(words, shows=["fork at event"])
    expect(printed == OTHER_ANSWER, "another answer than the other model gives")
    print(f"requests that reached the server: {world.requests - 5}, tables booked: {world.tables}")
    expect((world.requests, world.tables) == (6, 1), "one question, and no table")
    shows = ["$.response.answer.text", "{+in Bern, so I have booked a+}", "1 changed"]
    command("diff run fork", code=1, shows=shows)


def re_enact(world: World) -> None:
    say(
        "4. Re-enact, offline",
        "The server is stopped. The same program runs again, answered from the recording.",
    )
    code, _, said = started(["python", "agent.py", QUESTION])
    expect(code != 0 and "ConnectError" in said, "the server answers although it was stopped")
    before = world.requests
    printed = agent("--replay run", QUESTION, shows=["replayed 5 calls", "0 live, 0 unused"])
    expect(printed == ANSWER, "another output than the recorded one")
    print(f"requests that reached the server: {world.requests - before}")
    expect(world.requests == before, "a request in a replay")


def change(world: World) -> None:
    say("5. Change something", "The same recording, another question: not what was recorded.")
    before = world.requests
    path = "$.request.body.messages[0].content"
    shows = ["event_payload_mismatch", path, f'- "{QUESTION}"', f'+ "{OTHER_QUESTION}"']
    agent("--replay run", OTHER_QUESTION, code=1, shows=shows)
    expect(world.requests == before, "a request in a replay")


def damage() -> None:
    say("6. Damage a copy", "One bit of one byte, in the middle of the log.")
    shutil.copytree("run", "copy")
    log = Path("copy/events.jsonl")
    content = bytearray(log.read_bytes())
    place = content.index(b"celsius")
    content[place] ^= 1
    log.write_bytes(content)
    line = content[:place].count(b"\n") + 1
    print(f"\nflipped a bit in line {line} of copy/events.jsonl")
    command(
        "verify run copy", code=3, shows=["run: ok", f"copy: damaged at events.jsonl line {line}"]
    )
    agent("--replay copy", QUESTION, code=3, shows=["damaged"])


def exchange() -> None:
    say(
        "7. Replay an order of an app, with another amount",
        "A server for exchanges, with an account and a key for the shop. shop.py is a FastAPI app with three\n"
        "lines more than before. An order comes in, and is paid for at the bank.",
    )
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(running_server())
        bank = World()
        stack.callback(bank.stop)
        shop = stack.enter_context(running_shop(address, bank))
        answer = httpx.post(f"{shop}/orders", json={"item": "tea", "amount": 100}, trust_env=False)
        print(f"\nPOST /orders {{'item': 'tea', 'amount': 100}} -> {answer.text}")
        expect(bank.payments == 1, "an order that was not paid for")
        taken = wait_for(lambda: command("exchange ls", shows=[], quiet=True).count("POST /orders"))
        expect(taken == 1, "an exchange that was not recorded once")
        command("exchange ls", shows=["shop", "staging", "POST /orders", "completed"])
        command("exchange replay last", shows=["identical"])
        shows = ["diverged", "/body/amount", "- 100", "+ 5", "the recorded answer was given"]
        command("exchange replay last --set body.amount=5", code=1, shows=shows)
        print(f"payments at the bank: {bank.payments}")
        expect(bank.payments == 1, "a payment in a replay")
        prove()


def prove() -> None:
    say(
        "8. Prove it",
        "Who replayed what is in a log that nobody can edit without being noticed. The proof of one replay\n"
        "is a file: whoever has the log's key can verify it, without the server.",
    )
    command("audit ls --action replay.requested", shows=["replay.requested", "staging"])
    command("audit key -o key.pub", shows=["wrote key.pub"])
    command("audit verify --key key.pub", shows=["verified", "with a trusted key"])
    command("exchange prove last -o replay.json", shows=["wrote replay.json"])
    shows = [": verified", "proven: the payload in this file is the one that was to be replayed"]
    command("audit verify replay.json --key key.pub", shows=shows)


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """The address of a server with an account, at which this machine is signed in."""
    with background("reenact serve --port 0 --data server", "server.log") as log:
        link = wait_for(lambda: re.search(r"http://\S+/setup\?token=\w+", log.read_text("utf-8")))[
            0
        ]
        address = link.partition("/setup")[0]
        words = f"login '{address}/setup?token=…' --email ada@example.com --password-stdin"
        command(words.replace("…", link.rpartition("=")[2]), shows=["signed in"], said_as=words)
        command("environment set staging non-production", shows=["non-production"])
        yield address


@contextlib.contextmanager
def running_shop(server: str, bank: World) -> Iterator[str]:
    """Start the shop with the addresses of server and bank, and return its address."""
    words = "key add shop --kind agent --app shop --environment staging --json"
    key = json.loads(command(words, shows=["rnk_agent_"], hide=r"(?<=rnk_agent_)\w+"))["key"]
    os.environ.update(REENACT_SERVER=server, SHOP_AGENT_KEY=key, MODEL_SERVER=bank.address)
    with background("uvicorn shop:app --port 0", "shop.log") as log:
        yield wait_for(lambda: re.search(r"http://[\d.]+:\d+", log.read_text("utf-8")))[0]


# Running commands as a user would


@contextlib.contextmanager
def background(words: str, name: str) -> Iterator[Path]:
    """Run a program in the background and yield the file with its output."""
    print(f"\n$ {words} &", flush=True)
    module, *rest = shlex.split(words)
    log = Path(name)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *rest],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
        expect(process.poll() is None, f"{words} has ended by itself:\n{log.read_text('utf-8')}")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(found: Callable[[], T | None]) -> T:
    """Call ``found`` until it returns a value, and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        expect(time.monotonic() < end, "what was waited for did not come")
        time.sleep(0.05)
    return value


def agent(flags: str, question: str, *, code: int = 0, shows: list[str]) -> str:
    """Return the standard output of the program under ``reenact run``."""
    words = f"run {flags} -- python agent.py {shlex.quote(question)}"
    return command(words, code=code, shows=shows)


def command(
    words: str,
    *,
    code: int = 0,
    shows: list[str],
    said_as: str = "",
    hide: str = "",
    quiet: bool = False,
) -> str:
    """Run a command, show it (as ``said_as``, without what matches ``hide``), and check what it did.
    Returns its standard output."""
    returned, printed, said = started(["python", "-m", "reenact", *shlex.split(words)])
    if not quiet:
        shown = re.sub(hide, "…", f"{printed}{said}") if hide else f"{printed}{said}"
        print(f"\n$ reenact {said_as or words}\n{shown}", end="", flush=True)
    if code:
        print(f"(exit code {returned})")
    expect(returned == code, f"'reenact {words}' exited with {returned}, not {code}")
    for text in shows:
        expect(text in printed + said, f"'reenact {words}' did not print {text!r}")
    for secret in (API_KEY, PASSWORD):
        expect(secret not in printed + said, "a secret on the screen")
    return printed


def started(words: list[str]) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command; ``python`` is this one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, *words[1:]],
        input=PASSWORD if "--password-stdin" in words else "",
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PATH": path},
    )
    return done.returncode, done.stdout, done.stderr


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Surprise(otherwise)


def say(title: str, text: str) -> None:
    print(f"\n\n{title}\n{'-' * len(title)}\n{text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
