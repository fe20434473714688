"""urllib3's exceptions, which hold pools, connections and other exceptions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from reenact.boundaries.http import Errors
from reenact.engine.codecs import dump_exception, load_exception
from reenact.format.event import Data

__all__ = ["PoolErrors"]


class PoolErrors(Errors):
    """Those of one request to ``pool`` on ``conn``; ``library`` is ``urllib3.exceptions``."""

    def __init__(self, library: ModuleType, pool: Any, conn: Any) -> None:
        self._library = library
        self._pool = pool
        self._conn = conn

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if "args" not in data:  # not all of them are data
            data["arguments"] = [_dumped(argument) for argument in error.args]
        if self._conn.has_connected_to_proxy:
            data["proxied"] = True  # then it was not the proxy that failed
        return data

    def load(self, data: Any) -> BaseException:
        error = load_exception(data)
        if isinstance(data, dict):
            given = data.get("arguments")
            if isinstance(given, list):
                error.args = tuple(self._loaded(one) for one in given)
            if data.get("proxied") is True:
                self._conn._has_connected_to_proxy = True
        self._complete(error)
        return error

    def _loaded(self, argument: Any) -> Any:
        if not isinstance(argument, dict):
            return argument
        if "error" in argument:
            return load_exception(argument["error"])
        if "shown" in argument:
            return _Shown(self._conn, str(argument["shown"]))
        return argument.get("value")

    def _complete(self, error: BaseException) -> None:
        """Past the constructors and setters: give it what it had besides data."""
        library = self._library
        if isinstance(error, library.PoolError):
            error.__dict__["pool"] = self._pool
        if isinstance(error, library.NewConnectionError):
            error.__dict__["conn"] = self._conn
        if isinstance(error, library.NameResolutionError):
            error.__dict__["_reason"] = error.__cause__
        if isinstance(error, library.ProxyError):
            wrapped = next((one for one in error.args if isinstance(one, BaseException)), None)
            error.__dict__["original_error"] = error.__cause__ = wrapped
        if isinstance(error.__cause__, library.HTTPError):
            self._complete(error.__cause__)


class _Shown:
    """A connection that prints as that of the recording did: its address is part of the text."""

    def __init__(self, conn: Any, text: str) -> None:
        self._conn = conn
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def _dumped(argument: Any) -> Any:
    if isinstance(argument, BaseException):
        return {"error": dump_exception(argument)}
    plain = isinstance(argument, (str, int, bytes, type(None)))
    return {"value": argument} if plain else {"shown": repr(argument)}
