"""Queries of exchanges (written once, never changed), captures and noise rules."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Boolean, Column, ColumnElement, Row, Select, literal, or_, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from reenact.policy.noise import NoiseRule
from reenact.server.auth.permissions import ResourceScope
from reenact.server.storage.database import Scope
from reenact.server.storage.rows import Page, newest, within
from reenact.server.storage.tables import (
    CAPTURES,
    EXCHANGES,
    FAILED,
    NOISE,
    REPLAYED,
    TEXTS,
    WITH_SOURCE,
    Words,
)

__all__ = [
    "BRIEF",
    "CaptureFilters",
    "Filters",
    "add_capture",
    "add_exchanges",
    "any_contains",
    "briefs_of",
    "digests_of",
    "find_capture",
    "find_exchange",
    "list_captures",
    "list_exchanges",
    "list_rules",
    "listing",
    "of_correlation",
    "of_sources",
    "of_traces",
    "related",
    "rules_in",
    "rules_of",
    "set_rules",
]

BRIEF: Final = tuple(one for one in EXCHANGES.c if one.name not in ("tenant", "document"))
"""All but the content."""

_AT_ONCE: Final = 500
_LONGEST: Final = 512
"""Characters, as of a route: four bytes each, and with the rest of an index's row they fit into the 2,704
that PostgreSQL has for it."""
_BEGINNING: Final = 200


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of exchanges. An empty text, 0 and None match all."""

    app: str = ""
    environment: str = ""
    route: str = ""
    status: str = ""
    replay: bool | None = None
    replayable: bool | None = None
    since: int = 0
    until: int = 0
    trace_id: str = ""
    correlation_id: str = ""
    text: str = ""


async def add_exchanges(scope: Scope, rows: Sequence[dict[str, Any]]) -> None:
    """Keep new ones; the tenant is put in."""
    await scope.add(EXCHANGES, *map(_findable, rows))


def _findable(row: dict[str, Any]) -> dict[str, Any]:
    short = _shortened(row["correlation_id"])
    return row if short is row["correlation_id"] else {**row, "correlation_id": short}


def _shortened(text: str) -> str:
    """``text``, or for one that is too long for an index of PostgreSQL its beginning and its digest,
    which no other has. The document has the whole of it."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_BEGINNING]}… sha256:{hashlib.sha256(text.encode()).hexdigest()}"


async def digests_of(scope: Scope, ids: Sequence[str]) -> dict[str, str]:
    """Return the digests of exchanges that already exist."""
    found: dict[str, str] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = EXCHANGES.c.exchange_id.in_(ids[start : start + _AT_ONCE])
        columns = (EXCHANGES.c.exchange_id, EXCHANGES.c.digest)
        for row in await scope.all(scope.select(EXCHANGES, *columns).where(some)):
            found[row.exchange_id] = row.digest
    return found


async def briefs_of(
    scope: Scope, ids: Sequence[str], places: Sequence[ResourceScope] | None
) -> list[Row[Any]]:
    """Return exchanges without content for ``ids`` in ``places`` (None: everywhere), in that order."""
    found: dict[str, Row[Any]] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = EXCHANGES.c.exchange_id.in_(ids[start : start + _AT_ONCE])
        for row in await scope.all(_brief(scope).where(some, within(EXCHANGES, places))):
            found[row.exchange_id] = row
    return [found[one] for one in ids if one in found]


async def documents_of(scope: Scope, ids: Sequence[str]) -> AsyncIterator[Row[Any]]:
    """Ids and contents, in no order; not all of them in memory at once."""
    columns = (EXCHANGES.c.exchange_id, EXCHANGES.c.document)
    for start in range(0, len(ids), _AT_ONCE):
        some = EXCHANGES.c.exchange_id.in_(ids[start : start + _AT_ONCE])
        for row in await scope.all(scope.select(EXCHANGES, *columns).where(some)):
            yield row


async def find_exchange(scope: Scope, exchange_id: str) -> Row[Any] | None:
    """With its content."""
    return await scope.one(scope.select(EXCHANGES).where(EXCHANGES.c.exchange_id == exchange_id))


async def list_exchanges(
    scope: Scope, filters: Filters, places: Sequence[ResourceScope] | None, page: Page
) -> Sequence[Row[Any]]:
    """Return exchanges in ``places`` (None: everywhere), newest first; one more than the page."""
    return await scope.all(listing(scope, filters, places, page))


def listing(
    scope: Scope, filters: Filters, places: Sequence[ResourceScope] | None, page: Page
) -> Select[Any]:
    """Return the statement of :func:`list_exchanges`."""
    chosen = _filtered(_brief(scope), filters).where(within(EXCHANGES, places))
    return newest(chosen, EXCHANGES.c.started_at, EXCHANGES.c.exchange_id, page)


async def of_traces(scope: Scope, ids: Sequence[str], most: int) -> Sequence[Row[Any]]:
    """Return exchanges of these traces without content, oldest first."""
    return await _all(scope, related(scope, "trace_id", ids, most), ids)


async def of_correlation(scope: Scope, ids: Sequence[str], most: int) -> Sequence[Row[Any]]:
    """Return exchanges with these correlation ids without content, oldest first."""
    return await _all(scope, related(scope, "correlation_id", ids, most), ids)


async def of_sources(scope: Scope, ids: Sequence[str], most: int) -> Sequence[Row[Any]]:
    """Replays of any of ``ids``."""
    return await _all(scope, related(scope, "source_exchange_id", ids, most), ids)


def related(
    scope: Scope,
    column: Literal["trace_id", "correlation_id", "source_exchange_id"],
    ids: Sequence[str],
    most: int,
) -> Select[Any]:
    """Return the statement of the queries above.

    Sorting by an expression prevents SQLite from scanning all exchanges in order instead of sorting
    the few matches of several ids.
    """
    chosen = _brief(scope).where(EXCHANGES.c[column].in_(list(ids)[:_AT_ONCE]))
    if column == "source_exchange_id":
        chosen = chosen.where(text(WITH_SOURCE))
    return chosen.order_by(EXCHANGES.c.started_at + 0).limit(most)


async def _all(scope: Scope, chosen: Select[Any], ids: Sequence[str]) -> Sequence[Row[Any]]:
    return await scope.all(chosen) if ids else ()


def _brief(scope: Scope) -> Select[Any]:
    return scope.select(EXCHANGES, *BRIEF)


_EQUAL: Final = {
    "app": "app",
    "environment": "environment",
    "route": "route_id",
    "trace_id": "trace_id",
    "correlation_id": "correlation_id",
}


def _filtered(chosen: Select[Any], filters: Filters) -> Select[Any]:
    columns = EXCHANGES.c
    for name, column in _EQUAL.items():
        value = getattr(filters, name)
        if value:
            chosen = chosen.where(columns[column] == _shortened(value))
    if filters.status:
        failed = filters.status == "failed"
        chosen = chosen.where(text(FAILED) if failed else columns.status == filters.status)
    if filters.replay is not None:
        chosen = chosen.where(text(REPLAYED) if filters.replay else columns.replay_id == "")
    if filters.replayable is not None:
        empty = columns.not_replayable == ""
        chosen = chosen.where(empty if filters.replayable else ~empty)
    if filters.since:
        chosen = chosen.where(columns.started_at >= filters.since)
    if filters.until:
        chosen = chosen.where(columns.started_at < filters.until)
    if filters.text:
        chosen = chosen.where(any_contains([columns[name] for name in TEXTS], filters.text))
    return chosen


class CaptureFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of captures, times in milliseconds. An empty text and 0 match all."""

    text: str = ""
    since: int = 0
    until: int = 0


async def add_capture(scope: Scope, values: dict[str, Any]) -> None:
    """Keep the facts of a new one; its content is among the blobs before."""
    await scope.add(CAPTURES, values)


async def find_capture(scope: Scope, *, id: str = "", digest: str = "") -> Row[Any] | None:
    """By its id, or else by its digest; None when this tenant has none."""
    wanted = CAPTURES.c.capture_id == id if id else CAPTURES.c.digest == digest
    return await scope.one(scope.select(CAPTURES).where(wanted))


async def list_captures(scope: Scope, filters: CaptureFilters, page: Page) -> Sequence[Row[Any]]:
    """The newest first; one more than the page."""
    columns = CAPTURES.c
    chosen = scope.select(CAPTURES)
    if filters.text:
        chosen = chosen.where(any_contains([columns.capture_id, columns.name], filters.text))
    if filters.since:
        chosen = chosen.where(columns.created_at >= filters.since)
    if filters.until:
        chosen = chosen.where(columns.created_at < filters.until)
    return await scope.all(newest(chosen, columns.created_at, columns.capture_id, page))


async def rules_of(scope: Scope, app: str, route_id: str) -> tuple[NoiseRule, ...]:
    """Return the noise rules of a route."""
    row = await scope.one(
        scope.select(NOISE).where(NOISE.c.app == app, NOISE.c.route_id == route_id)
    )
    return () if row is None else rules_in(row)


async def list_rules(scope: Scope, app: str, route_id: str) -> Sequence[Row[Any]]:
    """Return the noise rules of all routes, or of the given app and route."""
    chosen = scope.select(NOISE).order_by(NOISE.c.app, NOISE.c.route_id)
    if app:
        chosen = chosen.where(NOISE.c.app == app)
    if route_id:
        chosen = chosen.where(NOISE.c.route_id == route_id)
    return await scope.all(chosen)


async def set_rules(
    scope: Scope, app: str, route_id: str, rules: tuple[NoiseRule, ...], at: int, by: str
) -> None:
    """Replaces what was there."""
    await scope.run(scope.delete(NOISE).where(NOISE.c.app == app, NOISE.c.route_id == route_id))
    row = {"app": app, "route_id": route_id, "rules": msgspec.json.encode(rules)}
    await scope.add(NOISE, {**row, "changed_at": at, "changed_by": by})


def rules_in(row: Row[Any]) -> tuple[NoiseRule, ...]:
    """The rules in a row of the table."""
    return msgspec.json.decode(row.rules, type=tuple[NoiseRule, ...])


class _Contains(FunctionElement[bool]):
    """A column, and a pattern in which ``/`` takes the meaning of the sign behind it."""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _in_general(element: _Contains, compiler: Any, **options: Any) -> str:
    column, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"lower({column}) LIKE lower({pattern}) ESCAPE '/'"


@compiles(_Contains, "sqlite")
def _in_sqlite(element: _Contains, compiler: Any, **options: Any) -> str:
    column, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} LIKE {pattern} ESCAPE '/'"


def any_contains(columns: list[Column[str]], text: str) -> ColumnElement[bool]:
    """One of ``columns`` has ``text`` in it."""
    plain = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    pattern = literal(f"%{plain}%", Words())  # as it is kept: PostgreSQL has no character 0
    return or_(*(_Contains(one, pattern) for one in columns))
