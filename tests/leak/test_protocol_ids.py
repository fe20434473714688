"""What only looks secret comes back byte for byte: a replay depends on it."""

from __future__ import annotations

import json
import random
import string
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from reenact import Draft, Redactor, open_recording, verify
from reenact.policy.redaction.redactor import Profile
from reenact.store.recording import make_seed
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from tests.clocks import start_clock

pytestmark = pytest.mark.thinned(2)

_chance = random.Random(11)


def _run(size: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_chance.choices(alphabet, k=size))


def _hex(size: int) -> str:
    return _run(size, "0123456789abcdef")


def _base64(size: int) -> str:
    return b64encode(_chance.randbytes(size)).decode("ascii")


def _base64url(size: int) -> str:
    return urlsafe_b64encode(_chance.randbytes(size)).decode("ascii").rstrip("=")


def _uuid() -> str:
    return "-".join(_hex(size) for size in (8, 4, 4, 4, 12))


# Under names that say what they are: kept in every profile.
IDS: dict[str, Any] = {
    "id": "call_" + _run(24),
    "call_id": "call_" + _run(24),
    "tool_call_id": "call_" + _run(24),
    "tool_use_id": "toolu_" + _run(24),
    "item_id": "rs_" + _hex(48),
    "response_id": "resp_" + _hex(48),
    "previous_response_id": "resp_" + _hex(48),
    "message_id": "msg_" + _run(24),
    "request_id": "req_" + _run(24),
    "x-request-id": _uuid(),
    "thread_id": "thread_" + _run(24),
    "runId": "run_" + _run(24),
    "signature": _base64(300),
    "thinking_signature": _base64url(300),
    "thoughtSignature": _base64(120),
    "encrypted_content": _base64url(1_200),
    "system_fingerprint": "fp_" + _hex(10),
    "etag": _hex(40),
    "nextPageToken": _base64url(60),
    "next_page_token": _base64(60),
    "pageToken": _base64url(40),
    "continuation_token": _base64url(80),
    "nextToken": _base64(80),
    "cursor": _base64url(48),
    "sessionKey": "agent:main:" + _uuid(),
    "idempotency_key": "stainless-python-retry-" + _uuid(),
    "sha256": _hex(64),
    "digest": "sha256:" + _hex(64),
    "traceId": _hex(32),
}

# Under any name, in any text: kept by the profile `default`.
ANYWHERE: dict[str, str] = {
    "a call id": "call_" + _run(24),
    "a reasoning id": "rs_" + _hex(50),
    "a message id": "msg_" + _run(24),
    "a tool use id": "toolu_" + _run(24),
    "a completion id": "chatcmpl-" + _run(29),
    "a uuid": _uuid(),
    "a digest": "sha256:" + _hex(64),
    "a bare digest": _hex(64),
    "a git commit": _hex(40),
    "a signature": _base64(512),
    "a URL-safe signature": _base64url(512),
    "an encrypted thought": "gAAAAA" + _base64url(900),
    "a data URL": "data:image/png;base64," + _base64(600),
    "an integrity hash": "sha512-" + _base64(64),
    "an e-mail address": "someone" + "@" + "mail.example",
    "a path": "/usr/lib/python3.11/site-packages/secret_santa/token_bucket.py",
    "prose": "The secret of a good password is its length; tokens and cookies are not for sharing.",
    "a question": "What is a bearer token? Is basic auth fine? Where do API keys go?",
    "code": 'f(token=token, api_key=None)\nreturn os.environ["API_KEY"], self.token == token\n',
}

NUMBERS: dict[str, Any] = {
    "max_tokens": 4096,
    "max_completion_tokens": 1024,
    "maxOutputTokens": 512,
    "tokens": 12,
    "total_tokens": 99,
    "token_count": 7,
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 0},
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
        "reasoning_tokens": 6,
    },
    "logprobs": {
        "content": [
            {
                "token": "Hello",
                "logprob": -0.5,
                "bytes": [72, 101],
                "top_logprobs": [
                    {"token": "Hi", "logprob": -1.5, "bytes": [72]},
                    {"token": " password", "logprob": -9.5, "bytes": [32]},
                ],
            },
        ]
    },
    "stop_token": "<|end|>",
    "eos_token": "</s>",
    "token_type": "Bear" + "er",
    "tokenizer": "cl100k_base",
    "authorization_url": "https://x.example/authorize",
    "password_required": True,
    "has_secret": False,
}


def _record(path: Path, profile: Profile, values: list[Any]) -> list[Any]:
    clock = start_clock()
    redactor = Redactor(profile)
    warnings: list[str] = []
    options = Options(redactor=redactor, seal=None, durability="none", warn=warnings.append)
    sink = DirectorySink(path, clock=clock, options=options)
    sink.start(make_seed(clock=clock, redactor=redactor, log="events.jsonl"))
    for value in values:
        data = {"callId": "c", "ok": True, "result": value}
        sink.append(Draft(type="tool_result", data=data, ts=1, op="same"))
    sink.finalize()
    verify(path)
    assert warnings == []
    with open_recording(path) as source:
        return [event.data["result"] for event in source]


def _around(value: Any) -> list[Any]:
    """As it is, in JSON in a string, deeper, and as bytes."""
    once = json.dumps(value)
    return [value, once, json.dumps({"body": once}), {"a": [{"b": value}]}, {"body": once.encode()}]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_a_protocol_id_under_its_name_survives(profile: Profile, name: str, tmp_path: Path) -> None:
    values = _around({name: IDS[name], "type": "x"})
    values.append({"items": [{name: IDS[name]}, {name: IDS[name]}]})
    assert _record(tmp_path / "capture", profile, values) == values


@pytest.mark.parametrize("what", ANYWHERE)
def test_what_only_looks_secret_survives_anywhere_by_default(what: str, tmp_path: Path) -> None:
    text = ANYWHERE[what]
    values: list[Any] = [
        *_around({"note": text}),
        f"see {text} for more",
        [text, [text]],
        {"headers": {"x-note": text}, "pairs": [["x-note", text]]},
        {"url": f"https://x.example/{text}"},
        {"chunks": [text[:5], text[5:]]},
    ]
    assert _record(tmp_path / "capture", "default", values) == values


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_counts_and_pieces_of_text_survive(profile: Profile, name: str, tmp_path: Path) -> None:
    values = _around({name: NUMBERS[name]})
    assert _record(tmp_path / "capture", profile, values) == values


def test_a_whole_conversation_survives(tmp_path: Path) -> None:
    request = {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "What is the next page?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": IDS["signature"]},
                    {"type": "redacted_thinking", "data": _base64(400)},
                    {"type": "tool_use", "id": IDS["tool_use_id"], "name": "f", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": IDS["tool_use_id"]}],
            },
            {
                "type": "reasoning",
                "id": IDS["item_id"],
                "encrypted_content": IDS["encrypted_content"],
            },
            {
                "type": "function_call",
                "call_id": IDS["call_id"],
                "arguments": '{"pageToken":"abc"}',
            },
        ],
        "tools": [
            {
                "name": "log_in",
                "input_schema": {
                    "type": "object",
                    "properties": {
                        "password": {"type": "string", "description": "the password"},
                        "token": {"type": ["string", "null"]},
                    },
                    "required": ["password", "token"],
                },
            }
        ],
    }
    values = _around(request)
    for profile in ("default", "strict"):
        assert _record(tmp_path / profile, profile, values) == values
