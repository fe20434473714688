"""The socket that a connection of http.client has in a session.

It collects what is sent, asks the session as soon as a request is complete, and gives the answer to
http.client's own code to read.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from typing import Any
from weakref import ref

from reenact.boundaries.http import Errors, Reply, Request, ask
from reenact.boundaries.http1 import Outgoing
from reenact.boundaries.http_client.framing import body_of, file_of, head_of, target_url
from reenact.boundaries.resending import Resend, request_bytes
from reenact.engine.codecs import dump_exception, load_exception
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = ["StandIn"]


# To data and back


def _request(conn: Any, sent: Outgoing) -> Request:
    scheme = "https" if conn.default_port == 443 else "http"
    host, port = conn.host, conn.port
    if conn._tunnel_host:
        host, port = conn._tunnel_host, conn._tunnel_port
    return Request(
        method=sent.method,
        url=target_url(scheme, host, port, sent.target),
        headers=sent.headers,
        body=sent.body,
    )


class _Errors(Errors):
    """A call of http.client is two calls of the program: the first sends, the second receives.
    Which one raised is part of the failure."""

    def __init__(self) -> None:
        self.receiving = False

    def dump(self, error: BaseException) -> Data:
        return {**dump_exception(error), "receiving": self.receiving}

    def load(self, data: Any) -> BaseException:
        self.receiving = isinstance(data, dict) and data.get("receiving") is True
        return load_exception(data)


class _Broken(io.RawIOBase):
    """What is read from a connection that failed."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise self._error


# Between http.client and the session


class StandIn:
    """The socket of ``conn`` in a session. ``real`` is that of the live calls, once there is one;
    what only that can tell, a replay cannot."""

    def __init__(self, conn: Any, real: Any = None) -> None:
        self.real = real
        self._conn = ref(conn)
        self._sent = Outgoing()
        self._answer: Reply | BaseException | None = None
        self._file: io.BufferedReader | None = None
        self._idle: tuple[socket.socket, socket.socket] | None = None
        self._settings: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._switched = False

    def sendall(self, data: Any) -> None:
        """Raises what connecting and sending raises, when this was the last part."""
        self._check_protocol()
        self._sent.add(data)
        reading = self._file is not None and not self._file.closed
        if self._sent.is_complete and not reading:
            self._ask()

    def makefile(self, mode: str, *args: Any, **kwargs: Any) -> io.BufferedReader:
        """The answer. Raises nothing, but reading it does."""
        if self._answer is None:
            self._ask()
        answer, self._answer = self._answer, None
        sent, self._sent = self._sent, Outgoing()
        if isinstance(answer, Reply):
            self._file = file_of(answer, sent.method)
            self._switched = answer.head.status == 101
        else:
            assert answer is not None
            self._file = io.BufferedReader(_Broken(answer))
        return self._file

    def _ask(self) -> None:
        session, errors = current(), _Errors()
        conn, sent = self._conn(), self._sent

        def live() -> Iterator[Any]:
            return self._live(conn, sent, errors)

        def resend(other: Request) -> Callable[[], Iterator[Any]]:
            outgoing = Outgoing()
            outgoing.add(request_bytes(other))
            return lambda: self._live(conn, outgoing, errors)

        try:
            self._answer = _reply(session, _request(conn, sent), live, errors, resend)
        except Exception as error:
            self._sent = Outgoing()
            if not errors.receiving:
                raise
            self._sent, self._answer = sent, error

    def _live(self, conn: Any, sent: Outgoing, errors: _Errors) -> Iterator[Any]:
        real = self.real or self._connect(conn)
        for part in sent.parts:
            real.sendall(part)
        errors.receiving = True
        low = HTTPResponse(real, method=sent.method)
        with closing(low):
            low.begin()
            if low.will_close:
                self.real = None
                real.close()  # the response has it now
            yield head_of(low)
            yield from body_of(low)

    def _connect(self, conn: Any) -> Any:
        conn.sock = None
        try:
            conn.connect()
            self.real = conn.sock
        except BaseException:
            if conn.sock is not None:
                conn.sock.close()
            raise
        finally:
            conn.sock = self
        for (name, *_), arguments in self._settings.items():
            getattr(self.real, name)(*arguments)
        return self.real

    # What else is done with a socket

    def close(self) -> None:
        answer, self._answer = self._answer, None
        if isinstance(answer, Reply):
            answer.close()
        for one in (self.real, *(self._idle or ())):
            if one is not None:
                one.close()
        self.real = self._idle = None

    def settimeout(self, *arguments: Any) -> None:
        self._set("settimeout", arguments)

    def setsockopt(self, *arguments: Any) -> None:
        self._set("setsockopt", arguments)

    def _set(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.real is not None:
            getattr(self.real, name)(*arguments)
        self._settings[(name, *arguments[:-1])] = arguments

    def shutdown(self, how: int) -> None:
        if self.real is not None:
            self.real.shutdown(how)

    def fileno(self) -> int:
        """For asking whether something has come: nothing comes that was not asked for."""
        if self.real is not None:
            number: int = self.real.fileno()
            return number
        if self._idle is None:
            self._idle = socket.socketpair()
        return self._idle[0].fileno()

    def _check_protocol(self) -> None:
        if self._switched:
            raise UsageError(
                "this connection of http.client speaks another protocol now, which is not recorded",
                hint="use a client that has a boundary, such as websockets, or an own boundary",
            )

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__.get("real")
        if self.__dict__.get("_switched"):
            self._check_protocol()
        if real is None:
            raise AttributeError(f"a recorded connection is not connected, and has no {name}")
        return getattr(real, name)


def _reply(
    session: Session | None,
    request: Request,
    live: Callable[[], Iterator[Any]],
    errors: Errors,
    resend: Resend,
) -> Reply:
    """When the session has ended while a request was being sent, it is sent all the same."""
    if session is None:
        return Reply(live())
    return ask(session, request, live, errors=errors, resend=resend)
