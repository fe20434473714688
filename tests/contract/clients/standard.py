"""What the standard library has: urllib.request and http.client."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.contract.clients.face import FORM, PARAMETERS, VALUE, Answer, Pairs
from tests.contract.clients.threads import Threads

__all__ = ["CLIENTS", "HttpClient", "Urllib"]


def _answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    return Answer(
        status=response.status,
        headers=tuple(response.headers.items()),
        body=body,
        reason=response.reason,
        version=str(response.version),
    )


def _conveniently(library: Threads, client: Any, url: str) -> list[bytes]:
    """With what stands beside them in the standard library."""
    text = (("Content-Type", "application/json"),)
    form = (("Content-Type", "application/x-www-form-urlencoded"),)
    return [
        library.ask(client, "GET", f"{url}?{urlencode(PARAMETERS)}", (), None).body,
        library.ask(client, "POST", url, text, json.dumps(VALUE).encode()).body,
        library.ask(client, "POST", url, form, urlencode(FORM).encode()).body,
    ]


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Urllib(Threads):
    """``urlopen`` and the openers around it."""

    name = "urllib.request"
    cannot = frozenset({"decode", "history", "multipart", "reuse", "whole"})

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        yield _Opener(timeout)

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        with client.open(method, url, headers, body) as response:
            return _answer(response, response.read())

    def streamed(self, client: Any, url: str, raw: bool = False) -> AbstractContextManager[Any]:
        return client.open("GET", url)

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        return iter(response.read1, b"")

    def ask_multipart(self, client: Any, url: str) -> Answer:
        raise AssertionError("urllib makes no forms of several parts")

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        with client.open(method, url, follow=True) as response:
            return [_answer(response, response.read())]

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        return _conveniently(self, client, url)

    def brief(self, url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=20) as response:
            return response.read()


class _Opener:
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def open(
        self, method: str, url: str, headers: Pairs = (), body: Any = None, follow: bool = False
    ) -> Any:
        own = [urllib.request.ProxyHandler({}), *([] if follow else [_Stay()])]
        opener = urllib.request.build_opener(*own)
        request = urllib.request.Request(url, body, dict(headers), method=method)
        try:
            return opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            return error  # which is the response, too


class HttpClient(Threads):
    """``HTTPConnection``: one connection, kept while the client is open."""

    name = "http.client"
    cannot = frozenset({"decode", "follow", "history", "leave", "multipart", "whole"})

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        with closing(_Connection(timeout)) as connection:
            yield connection

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        with client.send(method, url, headers, body) as response:
            return _answer(response, response.read())

    def streamed(self, client: Any, url: str, raw: bool = False) -> AbstractContextManager[Any]:
        return client.send("GET", url)

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        return iter(response.read1, b"")

    def ask_multipart(self, client: Any, url: str) -> Answer:
        raise AssertionError("http.client makes no forms")

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        raise AssertionError("http.client follows nothing")

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        return _conveniently(self, client, url)

    def brief(self, url: str) -> bytes:
        return self.fetch("GET", url).body


class _Connection:
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._open: http.client.HTTPConnection | None = None

    def send(self, method: str, url: str, headers: Pairs = (), body: Any = None) -> Any:
        parts = urlsplit(url)
        if self._open is None:
            kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            self._open = kind[parts.scheme](parts.netloc, timeout=self._timeout)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        self._open.request(method, target, body, dict(headers))
        return self._open.getresponse()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


CLIENTS = (Urllib(), HttpClient())
