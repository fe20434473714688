"""The whole log of a tenant as a file: the export that can be verified, or a list to look at."""

from __future__ import annotations

import asyncio
import csv
import io
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from reenact.audit.bundle import KeySpan, export_tar
from reenact.audit.log import Head, parse_head
from reenact.audit.merkle import hash_leaf
from reenact.server.audit.log import Auditor
from reenact.server.runtime import Server
from reenact.server.storage import audit
from reenact.server.storage.database import Scope

__all__ = ["FORMATS", "write_export"]

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
