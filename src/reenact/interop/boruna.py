"""Boruna's net tape, version 1: one JSON document with transactions in order.

A transaction has ``method``, ``url``, ``request_body`` (or null) and ``response_body``, all text.
The format has no status, headers, times or failures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from reenact.boundaries.http.wire import Head, Request
from reenact.errors import RecordingTooNew
from reenact.interop.model import Exchange, Found, Item, Made, damaged, other_shape, read_json

__all__ = ["read", "write"]

_VERSION = 1


def read(content: bytes) -> Found:
    """Read a tape. Raises :class:`RecordingDamaged` and :class:`RecordingTooNew`."""
    document = read_json(content)
    if not isinstance(document, dict) or "format_version" not in document:
        raise other_shape("not a Boruna tape: format_version is missing")
    version = document["format_version"]
    if type(version) is not int or version != _VERSION:
        raise RecordingTooNew(
            f"field format_version: only {_VERSION} is known",
            hint="record it again with a version that writes it",
            place="field format_version",
        )
    transactions = document.get("transactions")
    if not isinstance(transactions, list):
        raise damaged("it is not a list", "field transactions")
    found = Found()
    for number, one in enumerate(transactions, 1):
        found.items.append(_exchange(one, f"transaction {number}"))
    found.losses.note("status_assumed", len(transactions))
    return found


def _exchange(transaction: Any, place: str) -> Exchange:
    if not isinstance(transaction, dict):
        raise damaged("it is not an object", place)
    asked = transaction.get("request_body")
    return Exchange(
        request=Request(
            method=_text(transaction.get("method"), "method", place).upper(),
            url=_text(transaction.get("url"), "url", place),
            body=b"" if asked is None else _text(asked, "request_body", place).encode(),
        ),
        head=Head(status=200, reason="OK"),
        body=_text(transaction.get("response_body"), "response_body", place).encode(),
    )


def _text(value: Any, field: str, place: str) -> str:
    if not isinstance(value, str):
        raise damaged("it is not text", f"{place}, field {field}")
    return value


def write(items: Iterable[Item]) -> Made:
    """Write the HTTP calls with text bodies as a tape."""
    made = Made(b"", 0)
    transactions = []
    for item in items:
        if not isinstance(item, Exchange):
            made.losses.note("events")
            continue
        try:
            transactions.append(_transaction(item))
        except UnicodeDecodeError:
            made.losses.note("not_text")
            continue
        made.losses.note("headers")
        made.losses.note("times")
        made.losses.note("status", int(item.head.status != 200))
    document = {"format_version": _VERSION, "transactions": transactions}
    made.content = (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()
    made.calls = len(transactions)
    return made


def _transaction(exchange: Exchange) -> dict[str, Any]:
    request = exchange.request
    return {
        "method": request.method.upper(),
        "url": request.url,
        "request_body": request.body.decode() or None,
        "response_body": exchange.text.decode(),
    }
