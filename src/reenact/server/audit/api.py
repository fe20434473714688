"""API of the audit log.

Access to the log is audited: a query of records once per credential within ten minutes and not for
each page, an export always. Heads, keys and proofs could be published, so reading them is not
audited.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.responses import PlainTextResponse, Response

from reenact.audit.record import Record
from reenact.errors import AuditInvalid
from reenact.server.audit.export import FORMATS, send_export
from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import Permission
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse
from reenact.server.storage import audit
from reenact.server.storage.agents import agent_names
from reenact.server.storage.audit import RecordFilter
from reenact.server.storage.database import Scope
from reenact.server.storage.people import ids_of, names_of

__all__ = ["ENDPOINTS", "list_records", "names_by_id", "show_head", "show_proof"]

_SAME: Final = 10 * 60 * 1000
_ASKED: Final = {
    "actor": "actor",
    "action": "action",
    "exchange": "exchange_id",
    "replay": "replay_id",
    "environment": "environment",
    "outcome": "outcome",
}


class NumberedRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A record as it was signed. ``actorName`` and ``subjectName`` are the present names of its actor
    and subject: the e-mail address of a user, the name of a key or an agent; empty when none is
    known."""

    seq: int
    record: msgspec.Raw
    actor_name: str = ""
    subject_name: str = ""


class ConsistencyHashes(msgspec.Struct, frozen=True):
    hashes: list[str]


async def list_records(context: RequestContext) -> ListResponse[NumberedRecord]:
    """``GET /api/v1/audit/records``: the newest first. A new question is itself a record."""
    context.require("audit:read")
    wanted, limit = _filter(context), context.limit
    if wanted.before is None:
        await _record_reading(context)
    async with context.server.database.reading(context.tenant) as scope:
        found = await audit.find_records(scope, await _by_name(scope, wanted), limit + 1)
        more, found = len(found) > limit, found[:limit]
        about = [msgspec.json.decode(line, type=_Named) for _, line in found]
        names = await names_by_id(scope, (one.id for each in about for one in each.both))
    items: list[Any] = [
        NumberedRecord(seq, msgspec.Raw(line), *(names.get(one.id, "") for one in each.both))
        for (seq, line), each in zip(found, about, strict=True)
    ]
    return ListResponse(items, str(found[-1][0]) if more else None)


class _Party(msgspec.Struct, frozen=True):
    id: str = ""


class _Named(msgspec.Struct, frozen=True):
    """The actor and the subject of a record."""

    actor: _Party = _Party()
    subject: _Party | None = None

    @property
    def both(self) -> tuple[_Party, _Party]:
        return self.actor, self.subject or _Party()


async def names_by_id(scope: Scope, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of those users, keys and agents of ``ids`` that have one."""
    wanted = sorted({*ids} - {""})
    return {**await agent_names(scope, wanted), **await names_of(scope, wanted)}


def _filter(context: RequestContext) -> RecordFilter:
    words: dict[str, Any] = {field: context.query(name) for name, field in _ASKED.items()}
    return RecordFilter(
        **words,
        since=context.number("since", 0),
        until=context.number("until", 0),
        before=context.number("cursor", 0) if context.query("cursor") else None,
    )


async def _by_name(scope: Scope, wanted: RecordFilter) -> RecordFilter:
    """An actor may be named by id, by e-mail address, or by the name of a key."""
    if not wanted.actor:
        return wanted
    named = await ids_of(scope, wanted.actor)
    return msgspec.structs.replace(wanted, actor="", actors=(wanted.actor, *sorted(named)))


async def _record_reading(context: RequestContext) -> None:
    names = (*_ASKED, "since", "until")
    details = {name: context.query(name)[:200] for name in names if context.query(name)}
    async with context.server.database.writing(context.tenant) as scope:
        if not await _was_recorded(context, scope, details):
            record = _read(context, "audit.read", "audit:read", details)
            await context.server.auditor.write(scope, record)


async def _was_recorded(context: RequestContext, scope: Scope, details: dict[str, str]) -> bool:
    since = context.server.now() - _SAME
    lately = RecordFilter(actor=context.principal.id, action="audit.read", since=since)
    for _, line in await audit.find_records(scope, lately, 50):
        record = msgspec.json.decode(line)
        same = record["actor"].get("credential") == context.principal.credential
        if same and record.get("details", {}) == details:
            return True
    return False


def _read(
    context: RequestContext, action: str, permission: Permission, details: dict[str, str]
) -> Record:
    return Record(
        tenant=context.tenant,
        actor=actor_of(context.principal),
        action=action,
        permission=permission,
        outcome="ok",
        details=details,
    )


async def show_head(context: RequestContext) -> Response:
    """``GET /api/v1/audit/head``: the newest signed head as text; 404 before the first record."""
    context.require("audit:read")
    async with context.server.database.reading(context.tenant) as scope:
        note = await audit.read_head(scope)
    if note is None:
        raise Problem("not_found", "the log has no records yet")
    return PlainTextResponse(note)


async def show_key(context: RequestContext) -> Response:
    context.require("audit:read")
    async with context.server.database.reading(context.tenant) as scope:
        spans = await context.server.auditor.keys(scope)
    return PlainTextResponse("".join(f"{one.start} {one.key.to_text()}\n" for one in spans))


async def show_proof(context: RequestContext) -> Response:
    """``GET /api/v1/audit/proof/{seq}``: a ``.tlog-proof`` as text; 404 for no such record."""
    context.require("audit:read")
    text = context.path("seq")
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise Problem("not_found", "there is no such record")
    async with context.server.database.reading(context.tenant) as scope:
        proof = await context.server.auditor.prove(scope, int(text))
    return PlainTextResponse(proof.to_text())


async def show_growth(context: RequestContext) -> ConsistencyHashes:
    context.require("audit:read")
    async with context.server.database.reading(context.tenant) as scope:
        size = (await audit.read_end(scope, context.server.auditor.origin(context.tenant))).size
        old, new = context.number("from", 0), context.number("to", size)
        if new > size:
            raise Problem("invalid", f"the log has only {size} records", field="to")
        try:
            hashes = await context.server.auditor.prove_growth(scope, old, new)
        except AuditInvalid as error:
            raise Problem("invalid", error.message, hint=error.hint, field="from") from None
    return ConsistencyHashes([b64encode(node).decode() for node in hashes])


async def export(context: RequestContext) -> Response:
    context.require("audit:export")
    form = context.query("format", "tar")
    if form not in FORMATS:
        raise Problem("invalid", f"format is one of {', '.join(FORMATS)}", field="format")
    record = _read(context, "audit.exported", "audit:export", {"format": form})
    async with context.server.database.writing(context.tenant) as scope:
        await context.server.auditor.write(scope, record)
    return await send_export(context.server, context.tenant, form)


_TEXT: Final = ("text/plain; charset=utf-8",)

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/audit/records",
        "audit:read",
        list_records,
        says=ApiDescription(
            "Find records", query=(*PAGED, *_ASKED, "since", "until"), lists=NumberedRecord
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit/head",
        "audit:read",
        show_head,
        says=ApiDescription("The newest signed head", media=_TEXT, codes=("not_found",)),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit/key",
        "audit:read",
        show_key,
        says=ApiDescription("The verifier keys", media=_TEXT),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit/proof/{seq}",
        "audit:read",
        show_proof,
        says=ApiDescription("The proof of a record", media=_TEXT),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit/consistency",
        "audit:read",
        show_growth,
        says=ApiDescription(
            "That the log has only grown", query=("from", "to"), answers=ConsistencyHashes
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit/export",
        "audit:export",
        export,
        says=ApiDescription(
            "The whole log", query=("format",), media=tuple(media for media, _ in FORMATS.values())
        ),
    ),
)
