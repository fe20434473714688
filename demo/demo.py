"""A guided tour: record an unchanged agent, fork it, re-enact it offline, change it, damage a copy.

The program is ``agent.py``, and what it talks to is a small web server on loopback that plays two
models, a weather service and a restaurant. Runs the real ``reenact`` command on real files in a folder of its own,
which is removed at the end. Exits 0 only if everything came out as it should.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from world import WORDS, World

AGENT = Path(__file__).with_name("agent.py")
QUESTION = "Book a table in Bern if it is warm"
OTHER_QUESTION = "Book a table in Rome if it is warm"
ANSWER = f"{WORDS['small-1']}\n"
OTHER_ANSWER = f"{WORDS['large-1']}\n"
API_KEY = "sk-demo-hunter2-is-not-a-password"


class Surprise(Exception):
    """Something did not come out as it should."""


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="reenact-demo-"))
    os.chdir(folder)
    shutil.copy(AGENT, "agent.py")
    world = World()
    os.environ.update(
        COLUMNS=os.environ.get("COLUMNS", "100"),
        MODEL_API_KEY=API_KEY,
        MODEL_SERVER=world.address,
        REENACT_CONFIG_DIR=str(folder / "config"),
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


# Running commands as a user would


def agent(flags: str, question: str, *, code: int = 0, shows: list[str]) -> str:
    """What the program printed to its own standard output under ``reenact run``."""
    words = f"run {flags} -- python agent.py {shlex.quote(question)}"
    return command(words, code=code, shows=shows)


def command(words: str, *, code: int = 0, shows: list[str]) -> str:
    """Run a command, show it, and check what it did. Returns its standard output."""
    print(f"\n$ reenact {words}", flush=True)
    returned, printed, said = started(["python", "-m", "reenact", *shlex.split(words)])
    print(f"{printed}{said}", end="")
    if code:
        print(f"(exit code {returned})")
    expect(returned == code, f"'reenact {words}' exited with {returned}, not {code}")
    for text in shows:
        expect(text in printed + said, f"'reenact {words}' did not print {text!r}")
    expect(API_KEY not in printed + said, "a secret on the screen")
    return printed


def started(words: list[str]) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command; ``python`` is this one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, *words[1:]],
        stdin=subprocess.DEVNULL,
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
