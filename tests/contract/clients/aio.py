"""aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp

from tests.contract.clients.face import FIELD, FILE, FORM, PARAMETERS, VALUE, Answer, Pairs
from tests.contract.clients.tasks import Tasks

__all__ = ["CLIENTS", "Aiohttp"]


class Aiohttp(Tasks):
    """``ClientSession`` of aiohttp."""

    name = "aiohttp"
    cannot = frozenset({"whole"})

    @asynccontextmanager
    async def opened(self, timeout: float) -> AsyncIterator[Any]:
        limit = aiohttp.ClientTimeout(total=timeout)
        async with aiohttp.ClientSession(timeout=limit) as session:
            yield session

    async def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        asked = client.request(method, url, headers=headers, data=body, allow_redirects=False)
        async with asked as response:
            return await _answer(response)

    def streamed(
        self, client: Any, url: str, raw: bool = False
    ) -> AbstractAsyncContextManager[Any]:
        return client.get(url, auto_decompress=not raw)

    def pieces(self, response: Any, raw: bool) -> AsyncIterator[bytes]:
        return response.content.iter_any()

    async def ask_multipart(self, client: Any, url: str) -> Answer:
        form = aiohttp.FormData()
        form.add_field(*FIELD)
        form.add_field(FILE[0], FILE[2], filename=FILE[1])
        async with client.post(url, data=form) as response:
            return await _answer(response)

    async def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        async with client.request(method, url) as response:
            past = [_answer_of(one, b"") for one in response.history]
            return [*past, await _answer(response)]

    async def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        found = []
        for asked in (
            client.get(url, params=PARAMETERS),
            client.post(url, json=VALUE),
            client.post(url, data=FORM),
        ):
            async with asked as response:
                found.append(await response.read())
        return found

    def brief(self, url: str) -> bytes:
        async def main() -> bytes:
            async with aiohttp.request("GET", url) as response:
                return await response.read()

        return asyncio.run(main())


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    return _answer_of(response, await response.read())


def _answer_of(response: aiohttp.ClientResponse, body: bytes) -> Answer:
    raw = response.raw_headers
    version = response.version
    return Answer(
        status=response.status,
        headers=tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in raw),
        body=body,
        reason=response.reason,
        version=None if version is None else f"{version.major}.{version.minor}",
    )


CLIENTS = (Aiohttp(),)
