"""What clients that block have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, ExitStack
from typing import Any, BinaryIO

from tests.contract.clients.face import OCTETS, PATIENT, Answer, Client, Pairs

__all__ = ["Threads"]


class Threads(Client):
    """A library that blocks."""

    @abstractmethod
    def opened(self, timeout: float) -> AbstractContextManager[Any]:
        """The library's own client."""

    @abstractmethod
    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        """One request, its whole answer. ``body`` is bytes, an iterator of bytes, or None."""

    @abstractmethod
    def streamed(self, client: Any, url: str, raw: bool = False) -> AbstractContextManager[Any]:
        """An answer whose body has not been read yet."""

    @abstractmethod
    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        """The body of a streamed answer, piece by piece."""

    @abstractmethod
    def ask_multipart(self, client: Any, url: str) -> Answer: ...

    @abstractmethod
    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]: ...

    @abstractmethod
    def ask_conveniently(self, client: Any, url: str) -> list[bytes]: ...

    def _fetch(self, method: str, url: str, headers: Pairs, body: Any, timeout: float) -> Answer:
        with self.opened(timeout) as client:
            return self.ask(client, method, url, headers, body)

    def fetch_all(self, urls: list[str]) -> list[Answer]:
        with self.opened(PATIENT) as client:
            return [self.ask(client, "GET", url, (), None) for url in urls]

    def _read(self, url: str, goes_on: Callable[[bytes], bool], raw: bool, timeout: float) -> None:
        with self.opened(timeout) as client, self.streamed(client, url, raw) as response:
            for piece in self.pieces(response, raw):
                if not goes_on(piece):
                    break

    def glance(self, url: str) -> int:
        with self.opened(PATIENT) as client, self.streamed(client, url) as response:
            return self.status(response)

    def status(self, response: Any) -> int:
        """The status of a streamed answer."""
        return response.status

    def leave(self, url: str, other: str) -> tuple[bytes, Answer]:
        with self.opened(PATIENT) as client:
            with self.streamed(client, url) as response:
                piece = next(self.pieces(response, False))
            return piece, self.ask(client, "GET", other, (), None)

    def read_in_turn(self, urls: list[str]) -> list[bytes]:
        found = []
        with ExitStack() as stack:
            left = [self._begin(stack, url) for url in urls]
            while left:
                given = [(pieces, next(pieces, None)) for pieces in left]
                found += [piece for _, piece in given if piece is not None]
                left = [pieces for pieces, piece in given if piece is not None]
        return found

    def _begin(self, stack: ExitStack, url: str) -> Iterator[bytes]:
        client = stack.enter_context(self.opened(PATIENT))
        return self.pieces(stack.enter_context(self.streamed(client, url)), False)

    def read_at_once(self, urls: list[str]) -> list[list[bytes]]:
        with ThreadPoolExecutor(len(urls)) as pool:
            return list(pool.map(self.read, urls))

    def upload(self, url: str, pieces: list[bytes]) -> Answer:
        def made() -> Iterator[bytes]:
            yield from pieces

        with self.opened(PATIENT) as client:
            return self.ask(client, "POST", url, (), made())

    def multipart(self, url: str) -> Answer:
        with self.opened(PATIENT) as client:
            return self.ask_multipart(client, url)

    def send_file(self, url: str, file: BinaryIO) -> Answer:
        with self.opened(PATIENT) as client:
            return self.ask(client, "PUT", url, OCTETS, file)

    def convenient(self, url: str) -> list[bytes]:
        with self.opened(PATIENT) as client:
            return self.ask_conveniently(client, url)

    def follow(self, method: str, url: str) -> list[Answer]:
        with self.opened(PATIENT) as client:
            return self.ask_following(client, method, url)

    def parallel(self, urls: list[str]) -> list[Answer]:
        with ThreadPoolExecutor(len(urls)) as pool:
            return list(pool.map(lambda url: self.fetch("GET", url), urls))

    def completed(self, urls: list[str]) -> list[Answer]:
        with ThreadPoolExecutor(len(urls)) as pool:
            calls = [pool.submit(self.fetch, "GET", url) for url in urls]
            return [call.result() for call in as_completed(calls)]

    def race(self, urls: list[str], decided: Callable[[], None]) -> list[bool]:
        with ThreadPoolExecutor(len(urls)) as pool:
            calls = [pool.submit(self.fetch, "GET", url) for url in urls]
            done, _ = wait(calls, return_when=FIRST_COMPLETED)
            first = [call in done for call in calls]
            decided()
            wait(calls)
            return first
