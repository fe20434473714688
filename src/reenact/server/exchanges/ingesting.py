"""``POST /ingest``: what agents send."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from reenact.server.asking import Ask
from reenact.server.exchanges.ingest_lines import read_batch, with_clean_recordings
from reenact.server.exchanges.storing import IngestResult, store
from reenact.server.problems import Problem

__all__ = ["IngestAnswer", "ingest"]


class IngestAnswer(msgspec.Struct, frozen=True):
    """One result per exchange, in order."""

    results: tuple[IngestResult, ...]


async def ingest(ask: Ask) -> IngestAnswer:
    """All of a request is read before anything of it is kept."""
    headers = ask.request.headers
    content = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/x-ndjson":
        raise Problem("unsupported", "the body has to be application/x-ndjson")
    coding = headers.get("content-encoding", "").strip().lower()
    async with ask.taken(ask.server.limits.batch) as data:
        limits = ask.server.limits
        batch = await asyncio.to_thread(read_batch, data, coding, limits)
        if batch.blobs:
            batch = await asyncio.to_thread(with_clean_recordings, batch, limits)
        results = await store(ask.server, ask.principal, batch)
    for status, number in Counter(one.status for one in results).items():
        ask.server.meters.add("reenact_exchanges_ingested_total", number, status=status)
    return IngestAnswer(results)
