"""Makes the golden recordings of the present format: once per released format, never again.

    python -m tests.golden.make FOLDER

The folder must not exist. What is in ``tests/golden`` is never made anew: it stands for the
recordings people have, and every later version must read it. Everything is fixed (clock, ids,
keys, nonces), so that two runs of this script by one version write the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reenact.format.canonical import digest
from reenact.format.event import Draft
from reenact.format.event_fields import (
    ErrorInfo,
    LlmRequest,
    LlmResponse,
    Nondeterministic,
    Payload,
    RunEnd,
    RunStart,
    StateMutation,
    ToolCall,
    ToolResult,
)
from reenact.format.manifest import FORMAT, Model, Origin, PolicyRef, RedactionInfo, Seed
from reenact.policy.redaction.redactor import Redactor
from reenact.store.pack import pack
from reenact.store.reader import open_recording
from reenact.store.seal import Seal
from reenact.store.sign import sign
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.clocks import Clock

START = 1_735_689_600_000
"""2025-01-01, in milliseconds since the epoch."""

SECRET = "golden" + "-secret-" + "0123456789"
SEAL_KEY = bytes(range(32))
SIGNING_KEY = bytes(range(32, 64))
THRESHOLD = 2_048
HISTORY = "What is recorded once is told the same way for ever. Was einmal war, bleibt wahr. "


class FixedClock(Clock, frozen=True):
    """A clock that stands still."""

    def __call__(self) -> int:
        return self.wall_ns // 1_000_000


class FixedSeal(Seal):
    """Seals with counted nonces: only for a file that is made once."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._key, self._count = key, 0

    def close(self, plain: bytes, context: bytes) -> dict[str, str]:
        self._count += 1
        nonce = self._count.to_bytes(12, "big")
        box = AESGCM(self._key).encrypt(nonce, plain, context)
        return {"nonce": b64encode(nonce).decode(), "box": b64encode(box).decode()}


def seed(log: str) -> Seed:
    return Seed(
        version=1,
        format=FORMAT,
        capture_id="cap_golden",
        run_id="run_golden",
        created_at=START,
        mode="capture",
        model=Model("example", "model-1"),
        event_log_path=log,
        redaction=RedactionInfo(enabled=True, profile="default"),
        environment={"python": "3.11.0", "platform": "linux-x86_64", "reenact": "0"},
        policy=PolicyRef("golden", "sha256:" + "0" * 64),
        parent=Origin("cap_before", 3),
    )


def story() -> list[Draft]:
    """Every feature of the format, in events that must mean the same for ever."""
    drafts: list[Draft] = []

    def tell(payload: Payload, **place: Any) -> int:
        stamp = START + 10 * len(drafts)
        drafts.append(Draft(type=payload.event_type, data=payload.to_data(), ts=stamp, **place))
        return len(drafts)

    tell(
        RunStart(
            input={"question": "¿Qué? 何? \U0001f600"}, argv=["agent", "--go"], session_key="s"
        )
    )
    for turn in tuple(_turns()):
        tell(turn, op="chat")
    call = tell(
        ToolCall(name="search", args={"q": "x", "deep": [[[]]]}, call_id="call_1"), lane="0.1"
    )
    tell(
        Nondeterministic(
            source="network",
            key="GET https://example.org/?q=x",
            value_hash=digest("ok"),
            extra={
                "request": {"headers": [["accept", "*/*"], ["accept", "text/plain"]]},
                "response": {"status": 200, "body": b"\x00\xff\xfe ok"},
                "timing": {"ms": 12.5},
                "volatile": ["$.response.date"],
            },
        ),
        lane="0.1",
        parent=call,
    )
    tell(
        ToolResult(call_id="call_1", ok=True, result={"password": SECRET}), lane="0.1", parent=call
    )
    tell(
        ToolResult(
            call_id="call_2",
            ok=False,
            error=ErrorInfo("builtins.TimeoutError", "took too long", "timeout"),
        ),
        lane="0.1.2",
    )
    tell(ToolResult(call_id="call_3", ok=True, result={SECRET: "a secret in a key is withheld"}))
    tell(StateMutation(kind="file_write", details={"path": "out.txt", "content": "é" * 1_500}))
    tell(
        StateMutation(
            kind="file_write", details={"path": "out.bin", "content": bytes(range(256)) * 9}
        )
    )
    tell(
        StateMutation(kind="listing", details={"rows": [{"n": n, "x": n / 8} for n in range(120)]})
    )
    tell(
        Nondeterministic(
            source="rng",
            key="draws",
            value_hash="sha256:" + "1" * 64,
            value={
                "floats": [1.0, -0.0, 0.1, 5e-324, 1e21, 1.7976931348623157e308],
                "integers": [0, -1, 2**53, 2**64, 10**99, -(10**99)],
                "$blob": "sha256:" + "2" * 64,
                "$bytes": {"$delta": [], "$$blob": None},
                "controls": '\x00\x1f\x7f\u2028\ufeff"\\',
                "\U0001f600": True,
                "\ufb33": False,
            },
        )
    )
    stamp = START + 10 * len(drafts)
    drafts.append(
        Draft(type="of_the_future", data={"kept": True}, ts=stamp, extra={"mood": {"data": 1}})
    )
    tell(
        RunEnd(status="ok", output="done", usage={"inputTokens": 7}, stop_reason="end", exit_code=0)
    )
    return drafts


def _turns() -> Iterator[Payload]:
    """A conversation that repeats itself: stored as deltas."""
    messages = [{"role": "user", "content": HISTORY * 12}]
    for turn in range(4):
        yield LlmRequest(
            provider="example",
            model="model-1",
            input_hash=digest(messages),
            attempt=1,
            call=turn + 1,
            extra={"messages": list(messages)},
        )
        answer = {"role": "assistant", "content": f"Answer {turn}: {HISTORY * 7}"}
        yield LlmResponse(
            provider="example",
            model="model-1",
            stop_reason="stop",
            usage={"outputTokens": turn},
            response={"id": f"resp_{turn}", "message": answer},
        )
        messages.append(answer)


def options() -> Options:
    return Options(
        redactor=Redactor("default", declared=[SECRET]),
        seal=FixedSeal(SEAL_KEY),
        durability="none",
        blob_threshold=THRESHOLD,
        warn=lambda _: None,
    )


def write(sink: DirectorySink | TapeSink, log: str) -> None:
    sink.start(seed(log))
    for draft in story():
        sink.append(draft)
    sink.finalize()


def expectation(recording: Path) -> str:
    """What a reader of any later version must find: the events, one per line."""
    with open_recording(recording) as source:
        lines = [json.dumps(event.to_json(), ensure_ascii=True) for event in source]
        facts = {
            "contentHash": source.manifest().integrity.content_hash,
            "eventCount": len(source),
            "lanes": source.manifest().lanes,
            "model": {"provider": "example", "model": "model-1"},
        }
    head = json.dumps(facts)[:-1]
    return head + ', "events": [\n' + ",\n".join(lines) + "\n]}\n"


def make(folder: Path) -> None:
    clock = FixedClock((START + 1_000) * 1_000_000, 0)
    folder.mkdir(parents=True)
    write(DirectorySink(folder / "capture", clock=clock, options=options()), "events.jsonl")
    write(TapeSink(folder / "tape.jsonl", clock=clock, options=options()), "tape")
    _sign(folder)
    pack(folder / "capture", folder / "packed.tar.xz")
    expected = expectation(folder / "capture")
    assert expected == expectation(folder / "tape.jsonl")
    (folder / "expected.json").write_text(expected, encoding="utf-8")


def _sign(folder: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(SIGNING_KEY)
    private = folder / "key"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "key.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    with open_recording(folder / "capture") as source:
        sign(folder / "capture", source.manifest(), private)
    private.unlink()


def sums(folder: Path) -> str:
    """One line per file below ``folder``, as ``sha256sum`` prints them."""
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}\n"
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "SHA256SUMS"
    )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    if folder.exists():
        sys.exit(f"{folder} exists: a golden recording is made once")
    make(folder)
    (folder / "SHA256SUMS").write_text(sums(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
