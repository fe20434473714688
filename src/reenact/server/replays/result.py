"""Result of a replay that ran: its exchange is compared with the source exchange.

An app agent cannot be forced to run the commanded payload, so the start payload that it reports is
compared first. Redacted values, credentials that only the app has, and hop-by-hop headers are ignored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor, DiffSummary
from reenact.errors import ReenactError
from reenact.exchange.comparison.compare import compare
from reenact.exchange.comparison.result import Comparison, ending_of, http_status_of
from reenact.exchange.comparison.route_noise import merged
from reenact.exchange.model import Exchange, Payload
from reenact.exchange.payload import body_bytes, to_document
from reenact.format.canonical import exact
from reenact.format.json_path import format_pointer
from reenact.policy.noise import NoiseRule
from reenact.policy.redaction.placeholder import is_mark
from reenact.server.exchanges.ingest_parser import Taken
from reenact.server.exchanges.service import calls_of
from reenact.server.problems import Problem
from reenact.server.replays.checks import details_of
from reenact.server.replays.schema import hidden
from reenact.server.replays.state import ReplayResult, advance, arrived, follows
from reenact.server.runtime import Server
from reenact.server.storage.database import Scope
from reenact.server.storage.exchanges import find_exchange, rules_of
from reenact.server.storage.replays import find_replay
from reenact.server.storage.rows import exchange_of, unpack

__all__ = [
    "START_MISMATCH",
    "ReplayVerdict",
    "complete",
    "first_difference",
    "judge",
    "refuse_start",
    "side_by_side",
    "with_rules",
]

START_MISMATCH: Final = "start_mismatch"
_OTHER_START: Final = "the agent replayed a start payload that is not the commanded one"
_MESSAGE: Final = 500


class ReplayVerdict(msgspec.Struct, frozen=True):
    """Comparison of a replay with its source, and the cause of a divergence."""

    summary: DiffSummary
    cause: str = ""
    other_start: str | None = None
    """JSON pointer to the first difference from the commanded start payload; None without a
    difference."""


async def judge(server: Server, tenant: str, replayed: Exchange) -> ReplayVerdict | None:
    """Compare the exchange of a replay with its source; None without a source.

    It can take long, and uses no transaction.
    """
    if replayed.replay is None:
        return None
    async with server.database.reading(tenant) as scope:
        source = await find_exchange(scope, replayed.replay.source_exchange_id)
        replay = await find_replay(scope, replayed.replay.replay_id)
    if source is None:
        return None
    if replay is not None and replay.payload:
        other = await asyncio.to_thread(_other_start, replay, replayed)
        if other is not None:
            return ReplayVerdict(DiffSummary("diverged"), _OTHER_START, other)
    try:
        found = await side_by_side(server, tenant, source.app, exchange_of(source), replayed)
    except Problem:  # an impossible comparison counts as diverged
        return ReplayVerdict(DiffSummary("diverged"), "it cannot be compared")
    counts = found.counts
    summary = DiffSummary(found.verdict, counts.added, counts.removed, counts.changed)
    return ReplayVerdict(summary, found.cause)


def _other_start(replay: Row[Any], replayed: Exchange) -> str | None:
    commanded = unpack(replay.payload, Payload)
    unknown = msgspec.json.decode(replay.redacted, type=tuple[str, ...])
    return first_difference(commanded, replayed.start, unknown)


async def refuse_start(
    server: Server, scope: Scope, replay: Row[Any], judged: ReplayVerdict, actor: Actor
) -> bool:
    """Fail a replay whose agent ran a different payload. Return False if it is too late."""
    replay = await arrived(server, scope, replay, actor)
    message = f"{_OTHER_START}, first at {judged.other_start or 'the whole payload'}"
    return await advance(
        server, scope, replay, "failed", actor, code=START_MISMATCH, message=message[:_MESSAGE]
    )


async def side_by_side(
    server: Server, tenant: str, app: str, before: Exchange, after: Exchange
) -> Comparison:
    """The comparison of two exchanges, by the noise rules of the first one's route. Raises
    :class:`Problem` when a recording cannot be read."""
    [found] = await with_rules(server, tenant, app, before, after, [()])
    return found


async def with_rules(
    server: Server,
    tenant: str,
    app: str,
    before: Exchange,
    after: Exchange,
    more: Sequence[tuple[NoiseRule, ...]],
) -> list[Comparison]:
    """Return one comparison per element of ``more``, each with these rules in addition to the
    stored ones."""
    async with server.database.reading(tenant) as scope:
        rules = await rules_of(scope, app, before.route_id)
    made = await calls_of(server, tenant, before)
    makes = await calls_of(server, tenant, after)
    return [
        await asyncio.to_thread(compare, before, after, made, makes, merged(rules, one))
        for one in more
    ]


async def complete(
    server: Server,
    scope: Scope,
    replay: Row[Any],
    taken: Taken,
    judged: ReplayVerdict,
    actor: Actor,
) -> bool:
    """The exchange of ``replay`` is here: the replay is done. False when it is too late."""
    replay = await arrived(server, scope, replay, actor)
    if not follows(replay.state, "completed"):
        return False
    exchange = taken.exchange
    outcome = msgspec.to_builtins(
        {"status": exchange.status, "error": exchange.error, "result": exchange.result}
    )
    outcome = ReplayResult(
        exchange_id=exchange.exchange_id,
        result_digest=await server.auditor.remember(scope, outcome),
        trace_digest=taken.digest,
        summary=judged.summary,
        cause=judged.cause,
        ending=ending_of(exchange),
        http_status=http_status_of(exchange),
        details=_details(exchange),
    )
    return await advance(server, scope, replay, "completed", actor, outcome=outcome)


def _details(exchange: Exchange) -> dict[str, str]:
    """Return the containment details that the app agent has reported."""
    replay = exchange.replay
    if replay is None or replay.containment is None:
        return {}
    return details_of(replay.containment, replay.environment_variables)


_TRAVEL: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}
)
_REDACTED: Final = re.compile(r"\*\*\*REDACTED(?::[0-9a-f]{12})?\*\*\*")


def first_difference(commanded: Payload, outcome: Payload, unknown: Iterable[str]) -> str | None:
    """Return the JSON pointer of the first place that differs, or None.

    ``unknown`` are pointers to values that were recorded as placeholders, which only the app can fill.
    """
    try:
        wanted, found = _document(commanded), _document(outcome)
    except ReenactError:
        return ""
    return _compare(wanted, found, (), frozenset(unknown))


def _document(payload: Payload) -> dict[str, Any]:
    document = to_document(payload)
    if payload.body.type == "bytes" and payload.body.clipped is None:
        document["body"] = body_bytes(payload.body).decode("latin-1")
    headers = document["headers"]
    document["headers"] = {name: headers[name] for name in headers if name not in _TRAVEL}
    clean: dict[str, Any] = hidden(document)
    return clean


def _compare(wanted: Any, found: Any, at: tuple[str, ...], unknown: frozenset[str]) -> str | None:
    pointer = format_pointer(at)
    if pointer in unknown:
        return None
    if isinstance(wanted, dict) and isinstance(found, dict):
        return _compare_objects(wanted, found, at, unknown)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        differences = (_compare(a, b, (*at, str(number)), unknown) for number, (a, b) in pairs)
        return next((one for one in differences if one is not None), None)
    return None if _is_same(wanted, found) else pointer


def _compare_objects(
    wanted: dict[str, Any], found: dict[str, Any], at: tuple[str, ...], unknown: frozenset[str]
) -> str | None:
    for name in sorted({*wanted, *found}):
        here = (*at, name)
        if name not in wanted or name not in found:
            if format_pointer(here) not in unknown:
                return format_pointer(here)
            continue
        difference = _compare(wanted[name], found[name], here, unknown)
        if difference is not None:
            return difference
    return None


def _is_same(wanted: Any, found: Any) -> bool:
    if exact(wanted) == exact(found):
        return True
    if isinstance(found, str) and is_mark(found) and not isinstance(wanted, (dict, list)):
        return True  # also for a number: the placeholder is always a text
    texts = isinstance(wanted, str) and isinstance(found, str)
    return texts and (_stands_for(wanted, found) or _stands_for(found, wanted))


def _stands_for(redacted: str, text: str) -> bool:
    """Can ``redacted``, in which something was taken out, have been ``text``?"""
    parts = _REDACTED.split(redacted)
    if len(parts) == 1 or not text.startswith(parts[0]):
        return False
    place = len(parts[0])
    for part in parts[1:-1]:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(text) - place >= len(parts[-1]) and text.endswith(parts[-1])
