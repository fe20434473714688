"""Feeds the same bytes to the real SDKs and to the lenses, and compares what each makes of them.

Run it where the SDKs are installed: ``python tests/frameworks/programs/lens_check.py [--from URL]
[NAME…]``. It names every difference and exits with 1 if there is one; an SDK that is not installed is
named and left out, with exit 2 if it was asked for by name. With ``--from`` the bytes are what the
server at this URL answers to the same request (a mock server that nobody here wrote); it has to
answer to "Weather?", and what it does not know is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from reenact.lenses.conversation import messages, read_request, read_response
from reenact.lenses.model import Answered, Asked, Message
from tests.frameworks.lenses.scene import Saw, Server
from tests.frameworks.lenses.with_anthropic import (
    anthropic_on_bedrock,
    anthropic_streamed,
    anthropic_whole,
)
from tests.frameworks.lenses.with_bedrock import converse_streamed, converse_whole
from tests.frameworks.lenses.with_google import google_streamed, google_whole
from tests.frameworks.lenses.with_ollama import ollama_streamed
from tests.frameworks.lenses.with_openai import (
    chat_streamed,
    chat_whole,
    responses_streamed,
    responses_whole,
)
from tests.unit.lenses import spoken


def lens_saw(answered: Answered | None) -> Saw:
    assert answered is not None
    return Saw(
        text=answered.text,
        calls=[
            (call.id, call.item, call.name, call.arguments, call.opaque)
            for call in answered.tool_calls
        ],
        reason=answered.stop_reason,
        usage=answered.usage or {},
        reasoning=[(one.id, one.text, one.opaque) for one in answered.reasoning],
        id=answered.id,
        model=answered.model,
    )


class Check(NamedTuple):
    """``package`` asks for ``body``; the lens ``lens`` reads it."""

    package: str
    lens: str
    kind: str
    body: bytes
    ask: Callable[[Server], Saw]
    streams: bool


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


CHECKS = (
    Check("openai", "openai.chat", spoken.SSE, spoken.CHAT, chat_streamed, True),
    Check("openai", "openai.chat", spoken.JSON, _json(spoken.CHAT_WHOLE), chat_whole, False),
    Check("openai", "openai.responses", spoken.SSE, spoken.RESPONSES, responses_streamed, True),
    Check(
        "openai", "openai.responses", spoken.JSON, _json(spoken.RESPONSE), responses_whole, False
    ),
    Check(
        "anthropic", "anthropic.messages", spoken.SSE, spoken.ANTHROPIC, anthropic_streamed, True
    ),
    Check(
        "anthropic",
        "anthropic.messages",
        spoken.JSON,
        _json(spoken.ANTHROPIC_WHOLE),
        anthropic_whole,
        False,
    ),
    Check(
        "anthropic",
        "anthropic.messages",
        spoken.AWS,
        spoken.ANTHROPIC_ON_BEDROCK,
        anthropic_on_bedrock,
        True,
    ),
    Check("google.genai", "google.generate", spoken.SSE, spoken.GEMINI, google_streamed, True),
    Check(
        "google.genai",
        "google.generate",
        spoken.JSON,
        _json(spoken.GEMINI_WHOLE),
        google_whole,
        False,
    ),
    Check("boto3", "bedrock.converse", spoken.AWS, spoken.CONVERSE, converse_streamed, True),
    Check(
        "boto3",
        "bedrock.converse",
        spoken.JSON,
        _json(spoken.CONVERSE_WHOLE),
        converse_whole,
        False,
    ),
    Check("ollama", "ollama.chat", spoken.NDJSON, spoken.OLLAMA, ollama_streamed, True),
)


def from_elsewhere(check: Check, base: str) -> Check | None:
    """The same check with the bytes that the server at ``base`` answers; None if it refuses."""
    with Server(check.kind, check.body).running() as server:
        check.ask(server)
    request = urllib.request.Request(
        base + server.path, data=server.sent, headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as told:
            return check._replace(kind=told.headers["content-type"], body=told.read())
    except urllib.error.HTTPError:
        return None


def differences(check: Check) -> Iterator[str]:
    with Server(check.kind, check.body).running() as server:
        sdk = check.ask(server)
        asked = read_request("POST", server.url + server.path, json.loads(server.sent))
    lens = lens_saw(read_response(check.lens, 200, check.kind, check.body))
    for name in Saw._fields:
        ours, theirs = getattr(lens, name), getattr(sdk, name)
        if ours != theirs:
            yield f"{name}: the lens says {ours!r}, the SDK {theirs!r}"
    yield from _of_request(check, asked)


def _of_request(check: Check, asked: Asked | None) -> Iterator[str]:
    if asked is None:
        yield "the request is no model call"
        return
    if (asked.lens, asked.streams) != (check.lens, check.streams):
        yield f"the request is {asked.lens}, streams: {asked.streams}"
    if "-x" not in asked.model or not asked.tools:
        yield f"the model is {asked.model!r}, the tools are {asked.tools!r}"
    yield from _of_messages(messages(asked))


def _of_messages(found: tuple[Message, ...]) -> Iterator[str]:
    texts = [one.text for one in found if one.text]
    calls = [call.name for one in found for call in one.tool_calls]
    results = [result.text for one in found for result in one.results]
    if (texts, calls, results) != (["Be brief.", "Weather?"], ["weather"], ["rain"]):
        yield f"the messages are {texts!r}, {calls!r}, {results!r}"


def _is_here(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def outcome(check: Check, base: str | None) -> tuple[str, list[str]]:
    """One word, and what is to be said about it."""
    if not _is_here(check.package):
        return "MISSING", [f"{check.package} is not installed"]
    found = check if base is None else from_elsewhere(check, base)
    if found is None:
        return "left out", [f"{base} does not know it"]
    try:
        told = list(differences(found))
    except Exception as error:
        if base is None:
            raise
        return "left out", [f"the SDK cannot read what {base} sends: {error!r}"]
    return ("DIFFERS" if told else "same"), told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="base", metavar="URL")
    parser.add_argument("names", nargs="*", metavar="NAME", help="packages (default: all)")
    options = parser.parse_args()
    words = set()
    for check in CHECKS:
        if options.names and check.package not in options.names:
            continue
        word, told = outcome(check, options.base)
        words.add(word)
        print(f"{word}: {check.package} {check.ask.__name__}")
        for one in told:
            print(f"  {one}")
    if "DIFFERS" in words:
        return 1
    return 2 if "MISSING" in words and options.names else 0


if __name__ == "__main__":
    sys.exit(main())
