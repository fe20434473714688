"""Message of a route: headers, a body and properties that steps can change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reenact.exchange.model import Body, BodyType, Header, Payload
from reenact.exchange.payload import (
    JsonStyle,
    body_bytes,
    body_value,
    format_json,
    headers_to_object,
)
from reenact.exchange.snapshot import encode_bytes, is_json, snapshot

__all__ = ["Headers", "Message", "body_from", "payload_from"]


class Headers:
    """Ordered headers with case-insensitive names. A name can be repeated."""

    def __init__(self, pairs: Iterable[Header] | Mapping[str, str] = ()) -> None:
        items = pairs.items() if isinstance(pairs, Mapping) else pairs
        self._pairs: list[Header] = [(str(name), str(value)) for name, value in items]

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of ``name``."""
        return next((value for key, value in self._pairs if key.lower() == name.lower()), default)

    def all(self, name: str) -> list[str]:
        """Return all values of ``name``, in order."""
        return [value for key, value in self._pairs if key.lower() == name.lower()]

    def add(self, name: str, value: str) -> None:
        """Append a header."""
        self._pairs.append((str(name), str(value)))

    def pairs(self) -> tuple[Header, ...]:
        """Return all headers in order."""
        return tuple(self._pairs)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        """Set a header, in the position and spelling of the first one. Others with the name are
        removed."""
        found = [i for i, (key, _) in enumerate(self._pairs) if key.lower() == name.lower()]
        if not found:
            self.add(name, value)
            return
        self._pairs[found[0]] = (self._pairs[found[0]][0], str(value))
        for index in reversed(found[1:]):
            del self._pairs[index]

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._pairs = [pair for pair in self._pairs if pair[0].lower() != name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(headers_to_object(self._pairs))

    def __len__(self) -> int:
        return len(headers_to_object(self._pairs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._pairs == other._pairs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self)}>"  # names only: values may be secret


class Message:
    """Message of a route. ``body`` is a JSON value, a string, bytes, or None. ``properties`` are
    values that are not sent; a replay needs JSON values."""

    def __init__(
        self,
        body: Any = None,
        headers: Headers | Iterable[Header] | Mapping[str, str] = (),
        properties: Mapping[str, Any] | None = None,
        *,
        json: bool = False,
    ) -> None:
        self.headers = headers if isinstance(headers, Headers) else Headers(headers)
        self.body = body
        self.properties: dict[str, Any] = dict(properties or {})
        self._json = json
        """True if a string in the body is a JSON value."""

    @classmethod
    def of(cls, payload: Payload) -> Message:
        """Return the message with the content of ``payload``."""
        body = payload.body
        value = body_bytes(body) if body.type == "bytes" else body_value(body)
        return cls(value, payload.headers, payload.properties, json=body.type == "json")

    def document(self) -> dict[str, Any]:
        """Return a snapshot as a document, for comparison. Never raises."""
        return {
            "headers": headers_to_object(self.headers.pairs()),
            "body": snapshot(self.body),
            "properties": snapshot(self.properties),
        }

    def payload(self) -> Payload:
        """Return the current payload. Values that JSON cannot hold are approximated."""
        return Payload(
            headers=self.headers.pairs(),
            body=body_from(self.body, json=self._json),
            properties=encode_bytes(snapshot(self.properties)),
        )

    def unfit(self) -> str:
        """Return why the message cannot be the start of a replay, or an empty string."""
        if not isinstance(self.body, bytes) and not is_json(self.body):
            return f"its body is a {type(self.body).__name__}, or holds one, which JSON cannot hold"
        for name, value in self.properties.items():
            if not is_json(value):
                return f"its property {name} is no JSON value"
        return ""

    def __repr__(self) -> str:
        return f"<Message {type(self.body).__name__}>"


def body_from(value: Any, *, json: bool = False) -> Body:
    """Return a value of the program as a body."""
    if value is None and not json:
        return Body()
    if isinstance(value, (bytes, bytearray)):
        from base64 import b64encode

        return Body(type="bytes", base64=b64encode(value).decode())
    kind: BodyType = "text" if isinstance(value, str) and not json else "json"
    if kind == "text":
        return Body(type="text", text=str(value))
    plain = value if is_json(value) else encode_bytes(snapshot(value))
    return Body(type="json", text=format_json(plain, JsonStyle()))


def payload_from(value: Any) -> Payload:
    """Return the result of a route or task as a payload."""
    return value.payload() if isinstance(value, Message) else Payload(body=body_from(value))
