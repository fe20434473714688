"""The audit log of the caller's tenant: records, heads, keys, proofs and export.

Access to the log is audited: a query of records once per credential within ten minutes and not for
each page, an export always. Heads, keys and proofs could be published, so reading them is not
audited.
"""

from __future__ import annotations

import asyncio
import csv
import io
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from reenact.audit.bundle import KeySpan, export_tar
from reenact.audit.log import Head, parse_head
from reenact.audit.merkle import hash_leaf
from reenact.audit.proof import Proof
from reenact.audit.record import Record
from reenact.errors import AuditInvalid
from reenact.server.audit.log import Auditor, actor_of
from reenact.server.auth.permissions import Permission
from reenact.server.context import Caller
from reenact.server.pagination import ListResponse, list_response
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.storage import audit
from reenact.server.storage.agents import agent_names
from reenact.server.storage.audit import RecordFilter
from reenact.server.storage.database import Scope
from reenact.server.storage.people import ids_of, names_of

__all__ = [
    "FILTERS",
    "FORMATS",
    "NumberedRecord",
    "export_log",
    "list_records",
    "names_by_id",
    "prove_growth",
    "prove_record",
    "read_head",
    "read_keys",
    "write_export",
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


T = TypeVar("T")
_COLUMNS: Final = (
    "seq", "at", "action", "outcome", "code", "permission", "tier", "env", "replayId", "reason",
)  # fmt: skip
_INSIDE: Final = (
    ("actor", "type"), ("actor", "id"), ("actor", "auth"), ("actor", "credential"), ("actor", "ip"),
    ("source", "exchangeId"), ("subject", "type"), ("subject", "id"),
)  # fmt: skip
FORMATS: Final = {
    "tar": ("application/x-tar", "tar"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "jsonl": ("application/x-ndjson", "jsonl"),
}


async def write_export(server: Server, tenant: str, form: str) -> IO[bytes]:
    """Return a file with the log as of one moment, so that a slow client blocks no writer."""
    loop = asyncio.get_running_loop()
    async with server.database.reading(tenant) as scope:

        def wait(work: Coroutine[Any, Any, T]) -> T:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        pages = Pages(scope, wait)
        write = {"tar": _write_tar, "csv": _write_csv, "jsonl": _write_lines}[form]
        return await asyncio.to_thread(write, server, tenant, pages)


class Pages:
    """Rows of a transaction in the event loop, for a worker thread."""

    def __init__(self, scope: Scope, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._scope = scope
        self._wait = wait

    def lines(self) -> Iterator[bytes]:
        return (line for _, line in self._each(audit.line_page))

    def heads(self) -> Iterator[Head]:
        return (parse_head(note.encode()) for _, note in self._each(audit.head_page))

    def keys(self, auditor: Auditor) -> list[KeySpan]:
        found: list[KeySpan] = self._wait(auditor.keys(self._scope))
        return found

    def leaves(self) -> Iterator[bytes]:
        """Yield the stored hashes of the records in their order.

        A missing hash is computed from its record, and is empty if the record is missing as well.
        """
        seq = 0
        for position, leaf in self._each(audit.leaf_page):
            while seq < position:
                yield hash_leaf(self._wait(audit.read_line(self._scope, seq)) or b"")
                seq += 1
            yield leaf
            seq += 1
        yield from (hash_leaf(line) for _, line in self._each(audit.line_page, seq - 1))

    def _each(
        self,
        page: Callable[[Scope, int], Coroutine[Any, Any, list[tuple[int, T]]]],
        last: int = -1,
    ) -> Iterator[tuple[int, T]]:
        while rows := self._wait(page(self._scope, last)):
            last = rows[-1][0]
            yield from rows


def _write_tar(server: Server, tenant: str, pages: Pages) -> IO[bytes]:
    auditor = server.auditor
    with tempfile.TemporaryDirectory(dir=server.data) as folder:
        path = Path(folder) / "export.tar"
        export_tar(
            path,
            auditor.origin(tenant),
            pages.lines(),
            pages.heads(),
            pages.keys(auditor),
            server.now(),
            leaves=pages.leaves(),
        )
        return path.open("rb")


def _write_lines(server: Server, tenant: str, pages: Pages) -> IO[bytes]:
    def fill(file: IO[bytes]) -> None:
        for line in pages.lines():
            file.write(line + b"\n")

    return _filled(server, fill)


def _write_csv(server: Server, tenant: str, pages: Pages) -> IO[bytes]:
    def fill(file: IO[bytes]) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text)
        rows.writerow([*_COLUMNS, *(f"{one}.{two}" for one, two in _INSIDE)])
        rows.writerows(_row(msgspec.json.decode(line)) for line in pages.lines())
        text.detach()

    return _filled(server, fill)


def _filled(server: Server, fill: Callable[[IO[bytes]], None]) -> IO[bytes]:
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=server.data))
        fill(file)
        file.seek(0)
        stack.pop_all()  # closed by the reader
        return file


def _row(record: dict[str, Any]) -> list[str]:
    values = [record.get(name, "") for name in _COLUMNS]
    values += [record.get(one, {}).get(two, "") for one, two in _INSIDE]
    return [_cell(str(value)) for value in values]


def _cell(text: str) -> str:
    """Programs for tables take some texts for formulas, and run them."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
