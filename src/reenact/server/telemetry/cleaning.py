"""Spans as they may be kept: without secrets, under the names of our version, made of JSON."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from reenact.errors import UsageError, ValueRefused
from reenact.format.canonical import jcs
from reenact.interop.otel import Group, Span, to_current
from reenact.policy.redaction.redactor import Redactor
from reenact.server.telemetry.from_spans import Kept

__all__ = ["clean_span", "resource_of"]


@cache
def _redactor() -> Redactor:
    # OpenTelemetry's ``session.id`` names a visit and gives no access. It connects exchanges.
    return Redactor(not_secret_names=("session.id",))


def resource_of(group: Group) -> dict[str, Any]:
    """The attributes of what sent them."""
    found: dict[str, Any] = _redactor().redact(to_current(group.resource)).value
    return found


def clean_span(span: Span, resource: dict[str, Any], scope: str) -> Kept:
    """``span`` to be kept. Raises :class:`UsageError` for one that cannot be."""
    kept = Kept(_redacted(span), resource, scope)
    try:
        jcs(msgspec.to_builtins(kept))
    except ValueRefused as error:
        raise UsageError(f"a span is not JSON: {error.message}") from None
    survivors = _redactor().survivors(msgspec.json.encode(kept))
    if survivors:
        raise UsageError(f"a secret cannot be taken out of a span ({survivors[0]})")
    return kept


def _redacted(span: Span) -> Span:
    redactor = _redactor()

    def clean(attributes: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = redactor.redact(to_current(attributes)).value
        return found

    return msgspec.structs.replace(
        span,
        name=redactor.text(span.name),
        message=redactor.text(span.message),
        state=redactor.text(span.state),
        attributes=clean(span.attributes),
        events=tuple(
            msgspec.structs.replace(one, attributes=clean(one.attributes)) for one in span.events
        ),
        links=tuple(
            msgspec.structs.replace(one, attributes=clean(one.attributes)) for one in span.links
        ),
    )
