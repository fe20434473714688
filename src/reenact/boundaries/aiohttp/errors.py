"""The exceptions of aiohttp that know more than JSON can hold: connections and requests."""

from __future__ import annotations

from typing import Any

from aiohttp import client_exceptions
from aiohttp.client_exceptions import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientResponseError,
    ServerDisconnectedError,
    UnixClientConnectorError,
)
from aiohttp.client_reqrep import ClientRequest, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from reenact.boundaries.http import Errors
from reenact.engine.codecs import dump_exception, load_exception
from reenact.format.event import Data

__all__ = ["HopErrors"]

_HOME = "aiohttp.client_exceptions."


class HopErrors(Errors):
    """Failures of ``request``."""

    def __init__(self, request: ClientRequest) -> None:
        self._request = request

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if isinstance(error, ClientConnectorError):
            data["connection"] = _connection(error)
        elif isinstance(error, ClientResponseError):
            data["exchange"] = _exchange(error)
        return data

    def load(self, data: Any) -> BaseException:
        made = self._made(data) if isinstance(data, dict) else None
        if made is None:
            return load_exception(data)
        if isinstance(data.get("cause"), dict):
            made.__cause__ = load_exception(data["cause"])
        return made

    def _made(self, data: Data) -> BaseException | None:
        """One that only its own constructor can make."""
        home, _, name = str(data.get("class")).rpartition(".")
        kind = getattr(client_exceptions, name, None) if home + "." == _HOME else None
        if not isinstance(kind, type):
            return None
        connection, exchange = data.get("connection"), data.get("exchange")
        if issubclass(kind, ClientConnectorError) and isinstance(connection, dict):
            return self._connector_error(kind, connection)
        if issubclass(kind, ClientResponseError) and isinstance(exchange, dict):
            return _response_error(kind, exchange)
        if issubclass(kind, ServerDisconnectedError):
            return kind(str(data.get("message")))
        return None

    def _connector_error(self, kind: type[ClientConnectorError], said: Data) -> BaseException:
        key = self._request.connection_key._replace(
            host=str(said.get("host")), port=said.get("port"), is_ssl=bool(said.get("ssl"))
        )
        error: Any = load_exception(said.get("error"))
        if issubclass(kind, UnixClientConnectorError):
            return kind(str(said.get("path")), key, error)
        return kind(key, error)


def _connection(error: ClientConnectorError) -> Data:
    key = error._conn_key
    below: BaseException = error.os_error
    if isinstance(error, ClientConnectorCertificateError):
        below = error.certificate_error
    data: Data = {
        "host": key.host,
        "port": key.port,
        "ssl": key.is_ssl,
        "error": dump_exception(below),
    }
    if isinstance(error, UnixClientConnectorError):
        data["path"] = error.path
    return data


def _exchange(error: ClientResponseError) -> Data:
    """Of a request that aiohttp made by itself: the one that opens a tunnel through a proxy."""
    info = error.request_info
    return {
        "url": str(info.real_url),
        "method": info.method,
        "sent": [[str(name), value] for name, value in info.headers.items()],
        "status": error.status,
        "message": error.message,
        "headers": _pairs(error.headers),
    }


def _pairs(headers: Any) -> list[list[str]] | None:
    return None if headers is None else [[str(name), value] for name, value in headers.items()]


def _response_error(kind: type[ClientResponseError], said: Data) -> BaseException:
    url = URL(str(said.get("url")))
    sent = CIMultiDictProxy(CIMultiDict(_tuples(said.get("sent"))))
    info = RequestInfo(url.with_fragment(None), str(said.get("method")), sent, url)
    headers = said.get("headers")
    return kind(
        info,
        (),
        status=said.get("status"),
        message=str(said.get("message")),
        headers=None if headers is None else CIMultiDictProxy(CIMultiDict(_tuples(headers))),
    )


def _tuples(pairs: Any) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in pairs or ()]
