"""HTTP calls to measure with: small JSON requests to one address, no two alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from time import thread_time
from types import ModuleType
from typing import Any

import httpx

import reenact
from bench.traffic import chat_requests

__all__ = [
    "ANSWER",
    "HEADERS",
    "Recorded",
    "ask",
    "bodies",
    "canned",
    "canned_async",
    "record",
    "seconds",
]

ANSWER = '{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","content":"Yes."}}]}'
HEADERS = {"content-type": "application/json"}
_ANSWERED = json.loads(ANSWER)


def bodies(count: int, size: int = 1_000) -> list[str]:
    """``count`` chat requests of about ``size`` bytes as they are sent."""
    asked = chat_requests(size, count)
    return [json.dumps({**body, "seed": number}) for number, body in enumerate(asked)]


def ask(client: httpx.Client, url: str, asked: Sequence[str]) -> None:
    """One request after the other."""
    for body in asked:
        if client.post(url, content=body, headers=HEADERS).json() != _ANSWERED:
            raise AssertionError("another answer than the recorded one")


async def _ask(client: Any, url: str, asked: Sequence[str]) -> None:
    for body in asked:
        answer = await client.post(url, content=body, headers=HEADERS)
        if answer.json() != _ANSWERED:
            raise AssertionError("another answer than the recorded one")


def seconds(client: httpx.Client, url: str, asked: Sequence[str]) -> float:
    """CPU seconds of a call."""
    start = thread_time()
    ask(client, url, asked)
    return (thread_time() - start) / len(asked)


def _canned(library: ModuleType) -> Any:
    def answer(request: Any) -> Any:
        return library.Response(200, headers=HEADERS, content=ANSWER)

    return library.MockTransport(answer)


def canned(library: ModuleType = httpx) -> Any:
    """A client whose transport, the library's own for tests, answers by itself."""
    return library.Client(transport=_canned(library))


def canned_async(url: str, asked: Sequence[str], library: ModuleType = httpx) -> float:
    """CPU seconds of a call of an asynchronous one."""
    return _seconds_async(library, _canned(library), url, asked)


def _seconds_async(library: ModuleType, transport: Any, url: str, asked: Sequence[str]) -> float:
    async def main() -> float:
        async with library.AsyncClient(transport=transport, trust_env=False) as client:
            start = thread_time()
            await _ask(client, url, asked)
            return (thread_time() - start) / len(asked)

    return asyncio.run(main())


class _Server(httpx.BaseTransport):
    """Answers like a server, for making recordings: no session sees httpx's own canned one."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        headers = {**HEADERS, "content-length": str(len(ANSWER))}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(ANSWER.encode()))


class Recorded:
    """A recording of ``asked``: a tape, or a capture."""

    def __init__(self, path: Path, url: str, asked: Sequence[str]) -> None:
        self._place = {"tape" if path.suffix == ".tape" else "capture": path}
        self._url = url
        self._asked = asked

    def session(self, mode: str) -> reenact.Session:
        """A session on it."""
        return reenact.session(**self._place, mode=mode, strict=True, seal=False)  # type: ignore[arg-type]

    def replay(self, library: ModuleType = httpx) -> float:
        """CPU seconds of a call that is served; opening and closing are not counted."""
        with library.Client(trust_env=False) as client, self.session("replay"):
            return seconds(client, self._url, self._asked)

    def replay_async(self, library: ModuleType = httpx) -> float:
        """The same with an asynchronous client."""
        with self.session("replay"):
            return _seconds_async(library, None, self._url, self._asked)

    def replay_whole(self) -> float:
        """CPU seconds of a call; opening and closing the recording are counted."""
        with httpx.Client(trust_env=False) as client:
            start = thread_time()
            with self.session("replay"):
                ask(client, self._url, self._asked)
            return (thread_time() - start) / len(self._asked)

    def open(self) -> float:
        """CPU seconds from nothing to the first call."""
        start = thread_time()
        session = self.session("replay").__enter__()
        taken = thread_time() - start
        try:
            session.__exit__(None, None, None)
        except reenact.DivergenceError:
            pass  # nothing was asked for
        return taken


def record(path: Path, url: str, asked: Sequence[str]) -> Recorded:
    """Record ``asked`` without a network."""
    recorded = Recorded(path, url, asked)
    with httpx.Client(transport=_Server()) as client, recorded.session("record"):
        ask(client, url, asked)
    return recorded
