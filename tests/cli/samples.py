"""Small recordings for the command line: real files, made through the public surface."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from reenact.format.event_fields import (
    ErrorInfo,
    LlmRequest,
    LlmResponse,
    RunEnd,
    RunStart,
    StateMutation,
    ToolCall,
    ToolResult,
)
from reenact.policy.redaction.redactor import Profile
from reenact.store.recording import Recording, start_recording
from tests.unit.store.samples import NOW, draft, start_sink

DIGEST = "sha256:" + "0" * 64
CASSETTE = """\
interactions:
- request:
    body: null
    headers: {Authorization: [Bearer hunter2hunter2hunter2]}
    method: GET
    uri: https://a.example/%s
  response:
    body: {string: '{"a": 1}'}
    headers: {Content-Type: [application/json]}
    status: {code: 200, message: OK}
metadata: {clock: 7}
version: 1
"""

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \x9b31m \x7f \u2028 \U000e0041 end"
"""Clears a screen, names a window, turns text around, and so on, on a terminal that obeys."""


def begin(path: Path, redaction: Profile = "none") -> Recording:
    return start_recording(path, redaction=redaction, seal=False, durability="none")


def record(path: Path, events: list[tuple[str, dict[str, Any]]] | int = 3) -> Path:
    """A recording of these events, or of so many counted ones."""
    if isinstance(events, int):
        events = [mutation(number) for number in range(1, events + 1)]
    with begin(path) as recording:
        for kind, data in events:
            recording.add(kind, data)
    return path


def mutation(number: int) -> tuple[str, dict[str, Any]]:
    return "state_mutation", StateMutation(kind="counted", details={"to": number}).to_data()


def record_run(path: Path) -> Path:
    """One of everything: two lanes, a delta, a blob, a failure, HTTP."""
    history = [{"role": "user", "content": "Is it warm in Bern? " * 60}]
    with begin(path) as recording:
        recording.add(RunStart(input="Is it warm?", argv=["weather.py", "--city", "Bern"]))
        for call in (1, 2):
            ask(recording, history, call)
        seq = recording.add(ToolCall(name="weather", args={"city": "Bern"}, call_id="c1"))
        recording.add(ToolResult(call_id="c1", ok=True, result={"celsius": 21.0}), parent=seq)
        error = ErrorInfo("builtins.OSError", "no such city", "tool")
        recording.add(ToolResult(call_id="c2", ok=False, error=error), lane="0.1")
        recording.add("nondeterministic", fetched("b" * 70_000), lane="0.1")
        recording.add(StateMutation(kind="memory", details={"warm": True}))
        recording.add(RunEnd(status="ok", output="Yes.", exit_code=0))
    return path


def record_timed(path: Path) -> Path:
    """A run of 2.4 seconds whose times are always the same: two tasks, a tool, failures, a stream
    that nobody read to its end, a model that never answered, letters of all kinds."""
    events: list[tuple[int, str, str, dict[str, Any]]] = [
        (0, "0", "run_start", {"input": "Is it warm?", "argv": ["weather.py"]}),
        (50, "0", "llm_request", model_call(0)),
        (
            650,
            "0",
            "llm_response",
            {**model_call(0), "stopReason": "tool_calls", "usage": {"output": 4}},
        ),
        (660, "0", "tool_call", {"name": "weather", "args": {"city": "Bern"}, "callId": "c1"}),
        (1140, "0.1", "nondeterministic", timed("https://weather.example/bern", 400)),
        (1150, "0", "tool_result", {"callId": "c1", "ok": True, "result": 21}),
        (1300, "0.2", "nondeterministic", timed("https://a.example/one", 120)),
        (1320, "0.3", "nondeterministic", timed("https://a.example/%E5%A4%A9%E6%B0%97", 130)),
        (1600, "0.2", "nondeterministic", timed("https://a.example/two", 200, status=503)),
        (
            1700,
            "0.3",
            "nondeterministic",
            {**timed("https://a.example/n", 300), "ended": "abandoned"},
        ),
        *(
            (1800 + n, "0", "nondeterministic", timed(f"https://a.example/{n}", 0))
            for n in range(5)
        ),
        (1900, "0.2.1", "state_mutation", {"type": "memory", "details": {"warm": True}}),
        (1950, "0", "llm_request", model_call(1)),
        (2400, "0", "run_end", {"status": "error", "exitCode": 1}),
    ]
    sink = start_sink(path, created_at=NOW)
    for after, lane, kind, data in events:
        sink.append(draft(kind, data, ts=NOW + after, lane=lane))
    sink.finalize("error")
    return path


def model_call(call: int) -> dict[str, Any]:
    model = {"provider": "example", "model": "small-1", "call": call, "attempt": 0}
    return {**model, "inputHash": DIGEST, "messages": [{"role": "user", "content": "Warm?"}]}


def timed(url: str, took: int, status: int = 200) -> dict[str, Any]:
    request = {"method": "GET", "url": url}
    return {
        **fetched("{}"),
        "request": request,
        "response": {"status": status},
        "timing": {"offsets": [took]},
    }


def ask(recording: Recording, history: list[dict[str, str]], call: int) -> None:
    request = LlmRequest(
        provider="example",
        model="small-1",
        input_hash=DIGEST,
        call=call,
        extra={"messages": list(history)},
    )
    recording.add(request)
    history.append({"role": "assistant", "content": "Looking it up."})
    recording.add(
        LlmResponse(
            provider="example", model="small-1", stop_reason="stop", usage={"output_tokens": 4}
        )
    )


def fetched(body: str, **request: Any) -> dict[str, Any]:
    return {
        "source": "network",
        "key": DIGEST,
        "valueHash": DIGEST,
        "request": {"method": "GET", "url": "https://weather.example/bern", **request},
        "response": {"status": 200, "body": body},
    }


def record_old(path: Path) -> Path:
    """A capture directory of format 0."""
    path.mkdir()
    event = {
        "version": 1,
        "captureId": "cap_old",
        "runId": "run_old",
        "seq": 1,
        "ts": 1_700_000_000_000,
        "type": "run_start",
        "data": {"input": "hello"},
    }
    log = json.dumps(event).encode() + b"\n"
    manifest = {
        "version": 1,
        "captureId": "cap_old",
        "runId": "run_old",
        "createdAt": 1_700_000_000_000,
        "mode": "capture",
        "status": "ok",
        "integrity": {"algorithm": "sha256", "eventsHash": hashlib.sha256(log).hexdigest()},
    }
    (path / "events.jsonl").write_bytes(log)
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return path


def flip(path: Path, near: bytes) -> int:
    """Flip one bit where ``near`` stands; returns the number of the line."""
    content = bytearray(path.read_bytes())
    place = content.index(near)
    content[place] ^= 1
    path.write_bytes(content)
    return content[:place].count(b"\n") + 1


def everything_in(place: Path) -> bytes:
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    return b"".join(file.read_bytes() for file in files if file.is_file())
