"""The audit log of the caller's tenant: records, heads, keys, proofs and export.

Access to the log is audited: a query of records once per credential within ten minutes and not for
each page, an export always. Heads, keys and proofs could be published, so reading them is not
audited.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any, Final

import msgspec

from reenact.audit.bundle import KeySpan
from reenact.audit.proof import Proof
from reenact.audit.record import Record
from reenact.errors import AuditInvalid
from reenact.server.audit.export import FORMATS, write_export
from reenact.server.audit.log import actor_of
from reenact.server.auth.permissions import Permission
from reenact.server.context import Caller
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse, list_response
from reenact.server.storage import audit
from reenact.server.storage.agents import agent_names
from reenact.server.storage.audit import RecordFilter
from reenact.server.storage.database import Scope
from reenact.server.storage.people import ids_of, names_of

__all__ = [
    "FILTERS",
    "NumberedRecord",
    "export_log",
    "list_records",
    "names_by_id",
    "prove_growth",
    "prove_record",
    "read_head",
    "read_keys",
]

_SAME: Final = 10 * 60 * 1000
FILTERS: Final = {
    "actor": "actor",
    "action": "action",
    "exchange": "exchange_id",
    "replay": "replay_id",
    "environment": "environment",
    "outcome": "outcome",
}
"""Query parameters with the fields of :class:`RecordFilter`."""


class NumberedRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A record as it was signed. ``actorName`` and ``subjectName`` are the present names of its actor
    and subject: the e-mail address of a user, the name of a key or an agent; empty when none is
    known."""

    seq: int
    record: msgspec.Raw
    actor_name: str = ""
    subject_name: str = ""


class _Party(msgspec.Struct, frozen=True):
    id: str = ""


class _Named(msgspec.Struct, frozen=True):
    """The actor and the subject of a record."""

    actor: _Party = _Party()
    subject: _Party | None = None

    @property
    def ids(self) -> tuple[str, str]:
        return self.actor.id, (self.subject or _Party()).id


async def list_records(
    caller: Caller, wanted: RecordFilter, limit: int
) -> ListResponse[NumberedRecord]:
    """Return the matching records, newest first. A new query is itself recorded."""
    caller.require("audit:read")
    if wanted.before is None:
        await _record_reading(caller, wanted)
    async with caller.server.database.reading(caller.tenant) as scope:
        found = await audit.find_records(scope, await _by_name(scope, wanted), limit + 1)
        about = [msgspec.json.decode(line, type=_Named) for _, line in found]
        names = await _names(scope, (id for one in about for id in one.ids))
    items = [
        NumberedRecord(seq, msgspec.Raw(line), *(names.get(id, "") for id in one.ids))
        for (seq, line), one in zip(found, about, strict=True)
    ]
    return list_response(items, limit, lambda one: one, lambda one: str(one.seq))


async def names_by_id(caller: Caller, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of those users, keys and agents of ``ids`` that have one."""
    caller.require("audit:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        return await _names(scope, ids)


async def _names(scope: Scope, ids: Iterable[str]) -> dict[str, str]:
    wanted = sorted({*ids} - {""})
    return {**await agent_names(scope, wanted), **await names_of(scope, wanted)}


async def _by_name(scope: Scope, wanted: RecordFilter) -> RecordFilter:
    """Resolve an actor, which is an id, an e-mail address or the name of a key."""
    if not wanted.actor:
        return wanted
    named = await ids_of(scope, wanted.actor)
    return msgspec.structs.replace(wanted, actor="", actors=(wanted.actor, *sorted(named)))


async def _record_reading(caller: Caller, wanted: RecordFilter) -> None:
    fields = {**FILTERS, "since": "since", "until": "until"}
    values = {name: getattr(wanted, field) for name, field in fields.items()}
    details = {name: str(value)[:200] for name, value in values.items() if value}
    async with caller.server.database.writing(caller.tenant) as scope:
        if not await _was_recorded(caller, scope, details):
            await _record(caller, scope, "audit.read", "audit:read", details)


async def _was_recorded(caller: Caller, scope: Scope, details: dict[str, str]) -> bool:
    since = caller.server.now() - _SAME
    lately = RecordFilter(actor=caller.principal.id, action="audit.read", since=since)
    for _, line in await audit.find_records(scope, lately, 50):
        record: dict[str, Any] = msgspec.json.decode(line)
        same = record["actor"].get("credential") == caller.principal.credential
        if same and record.get("details", {}) == details:
            return True
    return False


async def _record(
    caller: Caller, scope: Scope, action: str, permission: Permission, details: dict[str, str]
) -> None:
    record = Record(
        tenant=caller.tenant,
        actor=actor_of(caller.principal),
        action=action,
        permission=permission,
        outcome="ok",
        details=details,
    )
    await caller.server.auditor.write(scope, record)


async def read_head(caller: Caller) -> str:
    """Return the newest signed head as text. Raises :class:`Problem` before the first record."""
    caller.require("audit:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        note = await audit.read_head(scope)
    if note is None:
        raise Problem("not_found", "the log has no records yet")
    return note


async def read_keys(caller: Caller) -> list[KeySpan]:
    """Return the keys that verify the log, from its first record."""
    caller.require("audit:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        return await caller.server.auditor.keys(scope)


async def prove_record(caller: Caller, seq: str) -> Proof:
    """Prove that the log contains the record with the number ``seq``. Raises :class:`Problem`."""
    caller.require("audit:read")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 17):
        raise Problem("not_found", "there is no such record")
    async with caller.server.database.reading(caller.tenant) as scope:
        return await caller.server.auditor.prove(scope, int(seq))


async def prove_growth(caller: Caller, old: int, new: int | None) -> list[bytes]:
    """Prove that the log of ``new`` records, or the present one, begins with the log of ``old``
    records. Raises :class:`Problem`."""
    caller.require("audit:read")
    auditor = caller.server.auditor
    async with caller.server.database.reading(caller.tenant) as scope:
        size = (await audit.read_end(scope, auditor.origin(caller.tenant))).size
        if new is not None and new > size:
            raise Problem("invalid", f"the log has only {size} records", field="to")
        try:
            return await auditor.prove_growth(scope, old, size if new is None else new)
        except AuditInvalid as error:
            raise Problem("invalid", error.message, hint=error.hint, field="from") from None


async def export_log(caller: Caller, form: str) -> IO[bytes]:
    """Return the complete log as a file in one of :data:`FORMATS`. Raises :class:`Problem`."""
    caller.require("audit:export")
    if form not in FORMATS:
        raise Problem("invalid", f"format is one of {', '.join(FORMATS)}", field="format")
    async with caller.server.database.writing(caller.tenant) as scope:
        await _record(caller, scope, "audit.exported", "audit:export", {"format": form})
    return await write_export(caller.server, caller.tenant, form)
