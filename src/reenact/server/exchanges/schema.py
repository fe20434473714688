"""Responses of the exchange and replay API."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.exchange.model import Containment, Exchange
from reenact.server.replays.checks import containment_of
from reenact.server.storage.rows import unpack

__all__ = ["ExchangeBrief", "ExchangeView", "ReplayBrief", "ReplayView"]


class _Shown(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All fields are written."""


class ExchangeBrief(_Shown, frozen=True):
    """An exchange in a list. ``httpStatus`` is the HTTP status of its response, 0 for none."""

    exchange_id: str
    app: str
    environment: str
    agent_id: str
    route_id: str
    revision: str
    kind: str
    status: str
    started_at: int
    duration: float
    received_at: int
    not_replayable: str
    replay_id: str
    source_exchange_id: str
    depth: int
    trace_id: str
    correlation_id: str
    error_type: str
    error_message: str
    http_status: int

    @classmethod
    def of(cls, row: Row[Any]) -> ExchangeBrief:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class ReplayBrief(_Shown, frozen=True):
    """A replay in the list of its exchange."""

    replay_id: str
    state: str
    verdict: str
    ending: str
    http_status: int
    exchange_id: str

    @classmethod
    def of(cls, row: Row[Any]) -> ReplayBrief:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class ExchangeView(Exchange, frozen=True, kw_only=True):
    """An exchange as it came in, and where it came from."""

    app: str = ""
    environment: str = ""
    received_at: int = 0
    digest: str = ""
    replays: tuple[ReplayBrief, ...] = ()

    @classmethod
    def of(cls, row: Row[Any], replays: tuple[ReplayBrief, ...]) -> ExchangeView:
        return msgspec.structs.replace(
            unpack(row.document, cls),
            app=row.app,
            environment=row.environment,
            received_at=row.received_at,
            digest=row.digest,
            replays=replays,
        )


class ReplayView(_Shown, frozen=True):
    """A replay. Times that have not come are 0. ``ending`` is how its exchange ended: ``completed``,
    ``refused`` (an HTTP status of 400 to 499) or ``failed``; empty until it has one."""

    replay_id: str
    source_exchange_id: str
    exchange_id: str
    state: str
    code: str
    message: str
    requested_at: int
    delivered_at: int
    started_at: int
    ended_at: int
    deadline: int
    agent_id: str
    app: str
    environment: str
    route_id: str
    boundaries: str
    strict: bool
    environment_variables: str
    containment: Containment
    revision: str
    reason: str
    patch: list[Any]
    requested_by: str
    depth: int
    verdict: str
    cause: str
    ending: str
    http_status: int
    audit_seq: int

    @classmethod
    def of(cls, row: Row[Any]) -> ReplayView:
        values = {name: getattr(row, name) for name in cls.__struct_fields__}
        values |= {
            "strict": bool(row.strict),
            "patch": unpack(row.patch, list),
            "containment": containment_of(row),
        }
        return cls(**values)
