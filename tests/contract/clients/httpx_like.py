"""httpx and httpx2, blocking and not, and httpx over the transport of aiohttp."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import ModuleType
from typing import Any

import httpx
import httpx2

from tests.contract.clients.face import FIELD, FILE, FORM, PARAMETERS, VALUE, Answer, Pairs
from tests.contract.clients.tasks import Tasks
from tests.contract.clients.threads import Threads

__all__ = ["CLIENTS", "HttpxOverAiohttp", "HttpxTasks", "HttpxThreads"]


def _answer(response: Any) -> Answer:
    raw = response.headers.raw
    return Answer(
        status=response.status_code,
        headers=tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in raw),
        body=response.content,
        reason=response.reason_phrase,
        version=response.http_version,
    )


# Made once: reading the certificates of the system is most of what a client costs.
_OPTIONS: dict[str, Any] = {"verify": ssl.create_default_context(), "trust_env": False}

_FORM: dict[str, Any] = {"data": {FIELD[0]: FIELD[1]}, "files": {FILE[0]: FILE[1:]}}


class HttpxThreads(Threads):
    """``Client`` of httpx, or of httpx2."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self.name = library.__name__

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        with self._library.Client(timeout=timeout, **_OPTIONS) as client:
            yield client

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        return _answer(client.request(method, url, headers=list(headers), content=body))

    def streamed(self, client: Any, url: str, raw: bool = False) -> AbstractContextManager[Any]:
        return client.stream("GET", url)

    def status(self, response: Any) -> int:
        return response.status_code

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        return response.iter_raw() if raw else response.iter_bytes()

    def ask_multipart(self, client: Any, url: str) -> Answer:
        return _answer(client.post(url, **_FORM))

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        response = client.request(method, url, follow_redirects=True)
        return [_answer(one) for one in (*response.history, response)]

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        answers = [
            client.get(url, params=PARAMETERS),
            client.post(url, json=VALUE),
            client.post(url, data=FORM),
        ]
        return [answer.content for answer in answers]

    def brief(self, url: str) -> bytes:
        return self._library.get(url, **_OPTIONS).content


class HttpxTasks(Tasks):
    """``AsyncClient`` of httpx, or of httpx2."""

    cannot = frozenset({"file"})

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self.name = f"{library.__name__}-async"

    @asynccontextmanager
    async def opened(self, timeout: float) -> AsyncIterator[Any]:
        async with self._library.AsyncClient(timeout=timeout, **_OPTIONS) as client:
            yield client

    async def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        return _answer(await client.request(method, url, headers=list(headers), content=body))

    def streamed(
        self, client: Any, url: str, raw: bool = False
    ) -> AbstractAsyncContextManager[Any]:
        return client.stream("GET", url)

    def status(self, response: Any) -> int:
        return response.status_code

    def pieces(self, response: Any, raw: bool) -> AsyncIterator[bytes]:
        return response.aiter_raw() if raw else response.aiter_bytes()

    async def ask_multipart(self, client: Any, url: str) -> Answer:
        return _answer(await client.post(url, **_FORM))

    async def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        response = await client.request(method, url, follow_redirects=True)
        return [_answer(one) for one in (*response.history, response)]

    async def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        answers = [
            await client.get(url, params=PARAMETERS),
            await client.post(url, json=VALUE),
            await client.post(url, data=FORM),
        ]
        return [answer.content for answer in answers]

    def brief(self, url: str) -> bytes:
        return self.fetch("GET", url).body


class HttpxOverAiohttp(HttpxTasks):
    """httpx as it is used by those who want its interface and the speed of aiohttp."""

    cannot = frozenset({"file", "version"})

    def __init__(self) -> None:
        import httpx

        super().__init__(httpx)
        self.name = "httpx-aiohttp"

    @asynccontextmanager
    async def opened(self, timeout: float) -> AsyncIterator[Any]:
        from httpx_aiohttp import AiohttpTransport

        transport = AiohttpTransport(**_OPTIONS)
        async with self._library.AsyncClient(transport=transport, timeout=timeout) as client:
            yield client


CLIENTS = (
    HttpxThreads(httpx),
    HttpxTasks(httpx),
    HttpxThreads(httpx2),
    HttpxTasks(httpx2),
    HttpxOverAiohttp(),
)
