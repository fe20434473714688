"""What browsers send, and the question that it stands for.

A form asks for the same as a request of the API, and goes the same way: :class:`Filled` is the ask of
a browser with the body, path and query that the API would have been sent.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from reenact.server.asking import Ask
from reenact.server.people.csrf import check_site, check_token
from reenact.server.problems import Problem

__all__ = ["Filled", "Form", "check_form", "read_form"]

T = TypeVar("T")
_FORM: Final = "application/x-www-form-urlencoded"
_FIELDS: Final = 2_000
_KNOWN: Final = "reenact.form"


class Form:
    """Fields in their order, repeated ones too."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def one(self, name: str, default: str = "") -> str:
        """The last one of this name."""
        return next((value for key, value in reversed(self._fields) if key == name), default)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All of them."""
        return tuple(self._fields)

    def many(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]


async def read_form(ask: Ask, most: int | None = None) -> Form:
    """What was sent, however often one asks. Raises :class:`Problem`. ``most`` is in bytes."""
    known = ask.request.scope.get(_KNOWN)
    if isinstance(known, Form):
        return known
    content = ask.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != _FORM:
        raise Problem("unsupported", f"the body has to be {_FORM}")
    data = await ask.body(most)
    try:
        fields = parse_qsl(
            data.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError:
        raise Problem("malformed", "this is not a form") from None
    ask.request.scope[_KNOWN] = form = Form(fields)
    return form


async def check_form(ask: Ask) -> None:
    """Raises :class:`Problem` unless what a browser sends with its cookie is a form of ours: from
    this site, and with the token of the session."""
    check_site(ask.request)
    form = await read_form(ask, 4 * ask.server.limits.payload)
    if ask.principal.auth == "session":
        check_token(form.one("csrf"), ask.principal.csrf)


class Filled(Ask):
    """An ask by the same one, with a body that was made from a form."""

    def __init__(
        self,
        ask: Ask,
        body: Any = None,
        *,
        path: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(ask.request, ask.server, ask.principal)
        self._body = body
        self._path = path or {}
        self._query = query
        self._headers = headers or {}

    def path(self, name: str) -> str:
        return self._path[name] if name in self._path else super().path(name)

    def query(self, name: str, default: str = "") -> str:
        return (
            super().query(name, default) if self._query is None else self._query.get(name, default)
        )

    def header(self, name: str) -> str:
        return self._headers.get(name, "") or super().header(name)

    async def json(self, kind: type[T], most: int | None = None) -> T:
        data = msgspec.json.encode(self._body)
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            raise Problem("invalid", f"this does not fit: {error}") from None
