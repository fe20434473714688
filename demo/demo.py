"""A guided tour: record a small run, look at it, damage a copy, survive a kill, send it away.

Runs the real ``reenact`` command on real files in a folder of its own, which is removed at the
end. Uses no network. Exits 0 only if everything came out as it should.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import reenact

SECRET = "hunter2-is-not-a-password"
COOKIE = "sid=4f1c0ffee"

# Appends until it is killed, and says each seq only after the sink has acknowledged it.
ENDLESS_WRITER = """
import reenact
recording = reenact.start_recording("killed-run", redaction="default")
recording.add(reenact.RunStart(input="count for ever"))
while True:
    seq = recording.add(reenact.StateMutation(kind="counted", details={"to": "the end"}))
    print(seq, flush=True)
"""


class Surprise(Exception):
    """Something did not come out as it should."""


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="reenact-demo-"))
    os.chdir(folder)
    os.environ["REENACT_CONFIG_DIR"] = str(folder / "config")
    os.environ.setdefault("COLUMNS", "100")
    try:
        for act in (record, look, check, damage, kill, send):
            act()
    except Surprise as surprise:
        print(f"\nThe demo did not go as it should: {surprise}", file=sys.stderr)
        return 1
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    say(
        "That was Reenact",
        "Every exit code and output above was checked. README.md goes on from here.",
    )
    return 0


def record() -> None:
    say(
        "1. Record",
        "A little agent asks a model, calls a tool, asks again with the whole history. Its HTTP call "
        "carries a password,\nand a cookie comes back. Each event is on disk before the program goes on.",
    )
    with reenact.start_recording("run", redaction="default") as recording:
        play_agent(recording)
    print("\nrecorded to ./run:", ", ".join(sorted(entry.name for entry in Path("run").iterdir())))


def play_agent(recording: reenact.Recording) -> None:
    """What the boundaries will do by themselves: here every event is written by hand."""
    recording.add(reenact.RunStart(input="Is it warm in Bern?", argv=["weather.py"]))
    history = [
        {"role": "system", "content": "You answer questions about the weather. " * 12},
        {"role": "user", "content": "Is it warm in Bern?"},
    ]
    ask(recording, history, "I will look it up.", call=1)
    call = recording.add(reenact.ToolCall(name="weather", args={"city": "Bern"}, call_id="call_1"))
    recording.add("nondeterministic", fetch_weather(), parent=call)
    recording.add(
        reenact.ToolResult(call_id="call_1", ok=True, result={"celsius": 21.0}), parent=call
    )
    history.append({"role": "tool", "content": '{"celsius": 21.0}'})
    ask(recording, history, "Yes, it is 21 degrees.", call=2)
    recording.add(reenact.RunEnd(status="ok", output="Yes, it is 21 degrees.", exit_code=0))


def ask(
    recording: reenact.Recording, history: list[dict[str, str]], answer: str, *, call: int
) -> None:
    recording.add(
        reenact.LlmRequest(
            provider="example",
            model="small-1",
            input_hash=reenact.digest(history),
            call=call,
            extra={"messages": list(history)},
        )
    )
    history.append({"role": "assistant", "content": answer})
    recording.add(
        reenact.LlmResponse(
            provider="example",
            model="small-1",
            stop_reason="stop",
            usage={"input_tokens": 150 * call, "output_tokens": 9},
            response=history[-1],
            call=call,
        )
    )


def fetch_weather() -> dict[str, object]:
    body = {"city": "Bern", "celsius": 21.0}
    return {
        "source": "network",
        "key": reenact.digest(["GET", "https://weather.example/bern"]),
        "valueHash": reenact.digest(body),
        "request": {
            "method": "GET",
            "url": "https://weather.example/bern",
            "headers": [["Accept", "application/json"], ["Authorization", f"Bearer {SECRET}"]],
        },
        "response": {
            "status": 200,
            "headers": [["Content-Type", "application/json"], ["Set-Cookie", f"{COOKIE}; Secure"]],
            "body": body,
        },
    }


def look() -> None:
    say("2. Look", "The table, and then the HTTP call whole. The password and the cookie are gone.")
    reenact_command("show run", shows=["tool_call", "GET https://weather.example/bern -> 200"])
    whole = reenact_command("show run 5", shows=["***REDACTED***", "application/json"])
    on_disk = b"".join(path.read_bytes() for path in Path("run").rglob("*") if path.is_file())
    for secret in (SECRET, COOKIE):
        expect(secret not in whole, "a secret on the screen")
        expect(secret.encode() not in on_disk, "a secret on the disk")
    print("\nNeither is anywhere in ./run. (Searched every file for both.)")
    reenact_command("stats run", shows=["delta saved"])


def check() -> None:
    say("3. Check", "Every line, field and blob against the manifest.")
    reenact_command("verify run", shows=["run: ok, 9 events"])


def damage() -> None:
    say("4. Damage a copy", "One bit of one byte, in the middle of the log.")
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
    reenact_command("show copy", code=3, shows=["hint:"])


def kill() -> None:
    say("5. Kill a program that is recording", "With kill -9, which no program can prepare for.")
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS_WRITER], stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert writer.stdout is not None
    acknowledged = 0
    while acknowledged < 100:
        acknowledged = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    acknowledged = int(([str(acknowledged), *writer.stdout.read().split()])[-1])
    writer.stdout.close()
    writer.wait()
    print(f"\nkilled after it was told that event {acknowledged} is safe")
    reenact_command("verify killed-run", code=3, shows=["unfinished", "hint: reenact recover"])
    reenact_command("recover killed-run", shows=["recovered"])
    reenact_command("verify killed-run", shows=["killed-run: ok"])
    with reenact.open_recording("killed-run") as source:
        expect(len(source) >= acknowledged, f"{len(source)} events, {acknowledged} acknowledged")
        print(f"\n{len(source)} events are there, {acknowledged} were acknowledged: none is lost.")


def send() -> None:
    say("6. Send it away", "One compressed file, verified on both sides.")
    reenact_command("pack run", shows=["run.reenact: 9 events"])
    reenact_command("unpack run.reenact received", shows=["received: 9 events"])
    reenact_command("verify received", shows=["received: ok"])


def reenact_command(words: str, *, code: int = 0, shows: list[str]) -> str:
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
    return done.stdout


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Surprise(otherwise)


def say(title: str, text: str) -> None:
    print(f"\n\n{title}\n{'-' * len(title)}\n{text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
