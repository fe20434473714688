"""Asking a Reenact server, over the standard library: TLS verified, no redirects, no proxies,
time-outs on everything. The key is in one header and nowhere else."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

import msgspec

from reenact._version import __version__
from reenact.cli.refusals import refusal
from reenact.cli.signed_in import who_asks
from reenact.errors import ServerUnusable, UsageError
from reenact.exchange.client.address import Address, Secret
from reenact.exchange.client.sse import EventTooLarge, Parser, Sent

__all__ = ["Client", "part", "signed_in_client"]

_CHUNK = 1 << 16
_ANSWER = 256 << 20
_EVENT = 4 << 20
_SECONDS = 60.0
_SILENCE = 60.0
"""Seconds without a byte after which a stream of events is taken for dead: it has a pulse of 15."""


def part(text: str) -> str:
    """``text`` as one part of a path."""
    return quote(text, safe="")


class Client:
    """One server and who asks it. Each request has a connection of its own."""

    def __init__(self, address: Address, key: Secret | None = None) -> None:
        if key is not None and not address.is_private:
            raise UsageError(
                f"{address} would get the key in plain text",
                hint="use https://, or the server's own machine",
            )
        self.address = address
        self._key = key

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the answer."""
        return self._json("GET", path, query)

    def text(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """An answer that is no JSON."""
        with self._asked("GET", path, query) as response:
            return self._read(response)

    def send(
        self,
        method: str,
        path: str,
        value: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send ``value`` as JSON; None for an answer without content."""
        body = b"" if value is None else msgspec.json.encode(value)
        kind = {} if value is None else {"Content-Type": "application/json"}
        return self._json(method, path, None, body, {**kind, **(headers or {})})

    def answered(
        self, method: str, path: str, value: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[Any, dict[str, str]]:
        """The same, with the headers of the answer."""
        given = {"Content-Type": "application/json", **(headers or {})}
        with self._asked(method, path, None, msgspec.json.encode(value), given) as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            return self._decoded(self._read(response)), found

    def upload(self, path: str, file: Path) -> Any:
        """Send a file as it is."""
        with file.open("rb") as content:
            kind = {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(os.fstat(content.fileno()).st_size),
            }
            return self._json("POST", path, None, content, kind)

    def download(self, path: str, target: Path, query: Mapping[str, Any] | None = None) -> int:
        """Write an answer to a file, however large; gives its size."""
        written = 0
        with self._asked("GET", path, query) as response, target.open("wb") as file:
            for piece in self._pieces(response):
                written += file.write(piece)
        return written

    def events(self, path: str) -> Iterator[Sent]:
        """Server-sent events as they come, until the server ends them or the line breaks."""
        parser = Parser(most=_EVENT)
        kind = {"Accept": "text/event-stream"}
        with self._asked("GET", path, None, b"", kind, _SILENCE) as response:
            try:
                while piece := response.read1(_CHUNK):
                    yield from parser.feed(piece)
            except (OSError, HTTPException):
                return  # whoever asked looks where things stand, and asks again
            except EventTooLarge:
                raise self._unusable("an event of it is too large") from None

    def items(self, path: str, query: Mapping[str, Any], limit: int) -> Iterator[dict[str, Any]]:
        """A list, page by page, at most ``limit`` of it."""
        left, cursor = limit, ""
        while left > 0:
            page = self.get(path, {**query, "limit": min(left, 500), "cursor": cursor})
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise self._unusable("its list is none")
            yield from page["items"][:left]
            left -= len(page["items"])
            cursor = page.get("next") or ""
            if not cursor or not page["items"]:
                return

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: bytes | BinaryIO = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        with self._asked(method, path, query, body, headers) as response:
            return self._decoded(self._read(response))

    def _decoded(self, data: bytes) -> Any:
        if not data:
            return None
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._unusable("its answer is no JSON") from None

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | BinaryIO = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = _SECONDS,
    ) -> HTTPResponse:
        """The answer, of which the body is still to be read; errors are raised."""
        wanted = {name: value for name, value in (query or {}).items() if value not in ("", None)}
        url = f"{self.address.prefix}{path}{'?' if wanted else ''}{urlencode(wanted)}"
        conn = self._connection(seconds)
        try:
            conn.request(method, url, body=body or None, headers=self._headers(headers or {}))
            response = conn.getresponse()
        except (OSError, HTTPException, ValueError) as error:
            conn.close()
            raise self._unreachable(error) from None
        if 200 <= response.status < 300:
            # The connection goes when the answer is read or closed.
            return response
        with response:
            said = self._read(response)
        if 300 <= response.status < 400:
            raise self._unusable("it sends us elsewhere, and the key is for nobody else")
        raise refusal(response.status, said, response.getheader("Retry-After") or "", path=path)

    def _connection(self, seconds: float) -> HTTPConnection:
        address = self.address
        if address.scheme == "http":
            return HTTPConnection(address.host, address.port, timeout=seconds)
        context = ssl.create_default_context()
        return HTTPSConnection(address.host, address.port, timeout=seconds, context=context)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"reenact/{__version__}",
            "Connection": "close",
            **more,
        }
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        return headers

    def _read(self, response: HTTPResponse) -> bytes:
        pieces: list[bytes] = []
        size = 0
        for piece in self._pieces(response):
            pieces.append(piece)
            size += len(piece)
            if size > _ANSWER:
                raise self._unusable("its answer does not end")
        return b"".join(pieces)

    def _pieces(self, response: HTTPResponse) -> Iterator[bytes]:
        try:
            while piece := response.read(_CHUNK):
                yield piece
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None
        if response.length:
            raise self._unreachable(EOFError("its answer breaks off"))

    def _unreachable(self, error: Exception) -> ServerUnusable:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServerUnusable(
            f"{self.address} cannot be asked: {why}",
            hint="is the server running, and is this its address?",
        )

    def _unusable(self, why: str) -> ServerUnusable:
        return ServerUnusable(
            f"{self.address} is no Reenact server: {why}", hint="check its address"
        )


def signed_in_client() -> Client:
    """For the server and the key that the environment or ``reenact login`` name."""
    return Client(*who_asks(os.environ))
