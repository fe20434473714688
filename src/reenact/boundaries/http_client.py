"""``http.client``, and with it ``urllib.request`` and other libraries built on it.

A connection gets a socket of Reenact's, so only the live half of a call connects.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from types import ModuleType
from typing import Any
from weakref import ref

from reenact.boundaries.http.api import Errors, Reply, Request, ask
from reenact.boundaries.http.fork import Resend, request_bytes
from reenact.boundaries.http.http1_messages import Outgoing, body_of, file_of, head_of, target_url
from reenact.engine.codecs import dump_exception, load_exception
from reenact.engine.patches.patch import Installable, Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import UsageError
from reenact.format.event import Data

__all__ = [
    "StandIn",
    "patches",
]

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
    """Serializer of exceptions that stores whether sending or receiving failed.

    One recorded call covers two calls of the program: one sends, and one receives.
    """

    def __init__(self) -> None:
        self.receiving = False

    def dump(self, error: BaseException) -> Data:
        return {**dump_exception(error), "receiving": self.receiving}

    def load(self, data: Any) -> BaseException:
        self.receiving = isinstance(data, dict) and data.get("receiving") is True
        return load_exception(data)


class _Broken(io.RawIOBase):
    """Stream of a failed connection, which raises its error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise self._error


# Between http.client and the session


class StandIn:
    """Socket of ``conn`` in a session.

    ``real`` is the socket of live calls, once there is one. Its other attributes are not available
    in a replay.
    """

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
        """Add data, and send the request after its last part.

        Raises the errors of connecting and sending.
        """
        self._check_protocol()
        self._sent.add(data)
        reading = self._file is not None and not self._file.closed
        if self._sent.is_complete and not reading:
            self._ask()

    def makefile(self, mode: str, *args: Any, **kwargs: Any) -> io.BufferedReader:
        """Return the response as a file. Errors are raised when it is read."""
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

    # Other socket methods

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
        """Return the descriptor of the real socket, or one that never becomes readable."""
        if self.real is not None:
            number: int = self.real.fileno()
            return number
        if self._idle is None:
            self._idle = socket.socketpair()
        return self._idle[0].fileno()

    def _check_protocol(self) -> None:
        if self._switched:
            raise UsageError(
                "this connection of http.client has switched to a protocol that is not recorded",
                hint="use a client that has a boundary, such as websockets, or write a boundary",
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
    """Return the reply. If the session ended while the request was being sent, it is sent live."""
    if session is None:
        return Reply(live())
    return ask(session, request, live, errors=errors, resend=resend)


def patches(library: ModuleType) -> list[Installable]:
    """Return the patches of ``http.client``."""
    return [
        Patch(library.HTTPConnection, "send", _sending),
        Patch(library.HTTPConnection, "connect", _connecting),
        _Heirs(library.HTTPConnection),
    ]


def _sending(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(conn: Any, data: Any) -> Any:
        sock, session = conn.sock, current()
        if session is None or session.mode == "off":
            if isinstance(sock, StandIn):
                conn.sock = sock.real
        elif not isinstance(sock, StandIn) and (sock is not None or conn.auto_open):
            conn.sock = StandIn(conn, sock)
        return original(conn, data)

    return send


def _connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(conn: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(conn)
        conn.sock = StandIn(conn)
        return None

    return connect


class _Heirs:
    """Patches of the ``connect`` methods of all subclasses of ``base``, including later ones."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._patches: list[Patch] = []

    def install(self) -> None:
        def init_subclass(heir: type[Any], **kwargs: Any) -> None:
            super(self._base, heir).__init_subclass__(**kwargs)
            self._cover(heir)

        for heir in _heirs(self._base):
            self._cover(heir)
        self._base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[arg-type]

    def _cover(self, heir: type[Any]) -> None:
        if "connect" in vars(heir):
            patch = Patch(heir, "connect", _connecting)
            patch.install()
            self._patches.append(patch)

    def remove(self) -> None:
        del self._base.__init_subclass__
        for patch in reversed(self._patches):
            patch.remove()
        self._patches = []


def _heirs(base: type[Any]) -> Iterator[type[Any]]:
    for heir in base.__subclasses__():
        yield heir
        yield from _heirs(heir)
