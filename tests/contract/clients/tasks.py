"""What clients that await have in common."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, BinaryIO

from tests.contract.clients.face import OCTETS, PATIENT, Answer, Client, Pairs

__all__ = ["Tasks"]


class Tasks(Client):
    """A library that awaits."""

    @abstractmethod
    def opened(self, timeout: float) -> AbstractAsyncContextManager[Any]:
        """The library's own client."""

    @abstractmethod
    async def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        """One request, its whole answer. ``body`` is bytes, an async iterator, or None."""

    @abstractmethod
    def streamed(
        self, client: Any, url: str, raw: bool = False
    ) -> AbstractAsyncContextManager[Any]:
        """An answer whose body has not been read yet."""

    @abstractmethod
    def pieces(self, response: Any, raw: bool) -> AsyncIterator[bytes]:
        """The body of a streamed answer, piece by piece."""

    @abstractmethod
    async def ask_multipart(self, client: Any, url: str) -> Answer: ...

    @abstractmethod
    async def ask_following(self, client: Any, method: str, url: str) -> list[Answer]: ...

    @abstractmethod
    async def ask_conveniently(self, client: Any, url: str) -> list[bytes]: ...

    def _run(self, do: Callable[[Any], Coroutine[Any, Any, Any]], timeout: float = PATIENT) -> Any:
        async def main() -> Any:
            async with self.opened(timeout) as client:
                return await do(client)

        return asyncio.run(main())

    def _fetch(self, method: str, url: str, headers: Pairs, body: Any, timeout: float) -> Answer:
        return self._run(lambda client: self.ask(client, method, url, headers, body), timeout)

    def fetch_all(self, urls: list[str]) -> list[Answer]:
        async def do(client: Any) -> list[Answer]:
            return [await self._get(client, url) for url in urls]

        return self._run(do)

    def _get(self, client: Any, url: str) -> Coroutine[Any, Any, Answer]:
        return self.ask(client, "GET", url, (), None)

    def _read(self, url: str, goes_on: Callable[[bytes], bool], raw: bool, timeout: float) -> None:
        async def do(client: Any) -> None:
            async with self.streamed(client, url, raw) as response:
                async for piece in self.pieces(response, raw):
                    if not goes_on(piece):
                        break

        self._run(do, timeout)

    def glance(self, url: str) -> int:
        async def do(client: Any) -> int:
            async with self.streamed(client, url) as response:
                return self.status(response)

        return self._run(do)

    def status(self, response: Any) -> int:
        """The status of a streamed answer."""
        return response.status

    def leave(self, url: str, other: str) -> tuple[bytes, Answer]:
        async def do(client: Any) -> tuple[bytes, Answer]:
            async with self.streamed(client, url) as response:
                piece = await anext(aiter(self.pieces(response, False)))
            return piece, await self._get(client, other)

        return self._run(do)

    def read_in_turn(self, urls: list[str]) -> list[bytes]:
        async def do(client: Any) -> list[bytes]:
            found = []
            async with AsyncExitStack() as stack:
                opened = [self.streamed(client, url) for url in urls]
                answers = [await stack.enter_async_context(one) for one in opened]
                left = [aiter(self.pieces(answer, False)) for answer in answers]
                while left:
                    given = [(pieces, await anext(pieces, None)) for pieces in left]
                    found += [piece for _, piece in given if piece is not None]
                    left = [pieces for pieces, piece in given if piece is not None]
            return found

        return self._run(do)

    def read_at_once(self, urls: list[str]) -> list[list[bytes]]:
        async def one(client: Any, url: str) -> list[bytes]:
            async with self.streamed(client, url) as response:
                return [piece async for piece in self.pieces(response, False)]

        async def do(client: Any) -> list[list[bytes]]:
            return list(await asyncio.gather(*(one(client, url) for url in urls)))

        return self._run(do)

    def upload(self, url: str, pieces: list[bytes]) -> Answer:
        async def made() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        return self._run(lambda client: self.ask(client, "POST", url, (), made()))

    def multipart(self, url: str) -> Answer:
        return self._run(lambda client: self.ask_multipart(client, url))

    def send_file(self, url: str, file: BinaryIO) -> Answer:
        return self._run(lambda client: self.ask(client, "PUT", url, OCTETS, file))

    def convenient(self, url: str) -> list[bytes]:
        return self._run(lambda client: self.ask_conveniently(client, url))

    def follow(self, method: str, url: str) -> list[Answer]:
        return self._run(lambda client: self.ask_following(client, method, url))

    def parallel(self, urls: list[str]) -> list[Answer]:
        async def do(client: Any) -> list[Answer]:
            return list(await asyncio.gather(*(self._get(client, url) for url in urls)))

        return self._run(do)

    def completed(self, urls: list[str]) -> list[Answer]:
        async def do(client: Any) -> list[Answer]:
            calls = [asyncio.create_task(self._get(client, url)) for url in urls]
            return [await call for call in asyncio.as_completed(calls)]

        return self._run(do)

    def race(self, urls: list[str], decided: Callable[[], None]) -> list[bool]:
        async def do(client: Any) -> list[bool]:
            calls = [asyncio.create_task(self._get(client, url)) for url in urls]
            done, left = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            for call in left:
                call.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            return [call in done for call in calls]

        return self._run(do)

    # What only tasks can do

    def give_up(self, url: str, seconds: float) -> str:
        """A call under a time limit of the program's own."""

        async def do(client: Any) -> str:
            try:
                async with asyncio.timeout(seconds):
                    await self._get(client, url)
            except TimeoutError as error:
                return type(error.__cause__).__name__
            return "answered"

        return self._run(do)

    def give_up_reading(self, url: str, seconds: float) -> list[bytes]:
        """The same for a stream: what was there in time."""
        found: list[bytes] = []

        async def do(client: Any) -> list[bytes]:
            try:
                async with asyncio.timeout(seconds), self.streamed(client, url) as response:
                    async for piece in self.pieces(response, False):
                        found.append(piece)
            except TimeoutError:
                found.append(b"time out")
            return found

        return self._run(do)

    def cancel(self, slow: str, quick: str) -> tuple[bool, Answer]:
        """A call that is cancelled when another one has been answered."""

        async def do(client: Any) -> tuple[bool, Answer]:
            call = asyncio.create_task(self._get(client, slow))
            answer = await self._get(client, quick)
            call.cancel()
            await asyncio.wait([call])
            return call.cancelled(), answer

        return self._run(do)
