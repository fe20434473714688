"""A client for chat that looks like an SDK's, and gives plain data. Programs get a copy of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

__all__ = ["AsyncClient", "Client"]


class Client:
    """The part of an SDK's client that chat and responses need."""

    def __init__(self, base: str) -> None:
        self.chat = self.completions = self
        self.responses = _Responses(base)
        self._url = base + "/v1/chat/completions"

    def create(self, *, stream: bool = False, **asked: Any) -> Any:
        if stream:
            return self._events({**asked, "stream": True})
        return _post(self._url, asked)

    def _events(self, asked: Any) -> Iterator[Any]:
        with (
            httpx.Client(trust_env=False) as client,
            client.stream("POST", self._url, json=asked) as answer,
        ):
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))


class _Responses:
    def __init__(self, base: str) -> None:
        self._url = base + "/v1/responses"

    def create(self, **asked: Any) -> Any:
        return _post(self._url, asked)


def _post(url: str, asked: Any) -> Any:
    with httpx.Client(trust_env=False) as client:
        answer = client.post(url, json=asked, timeout=60)
    answer.raise_for_status()
    return answer.json()


class AsyncClient:
    """The same for tasks."""

    def __init__(self, base: str) -> None:
        self.chat = self.completions = self
        self._url = base + "/v1/chat/completions"

    async def create(self, *, stream: bool = False, **asked: Any) -> Any:
        if stream:
            return self._events({**asked, "stream": True})
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(self._url, json=asked, timeout=60)
        answer.raise_for_status()
        return answer.json()

    async def _events(self, asked: Any) -> AsyncIterator[Any]:
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("POST", self._url, json=asked) as answer,
        ):
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))
