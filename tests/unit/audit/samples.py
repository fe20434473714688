"""Logs to look at: records, heads, keys, and exports of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from reenact.audit.bundle import KeySpan, export_folder
from reenact.audit.keys import Signer
from reenact.audit.log import Checkpoint, Head, Log, origin_of, sign_head
from reenact.audit.merkle import hash_leaf
from reenact.audit.note import rotation_note
from reenact.audit.record import Actor, Record, Source
from reenact.format.canonical import jcs

TENANT = "t-1"
ORIGIN = origin_of("acme.example", TENANT)
START = 1_750_000_000_000
ONE, TWO, THIEF = (Signer(ORIGIN, bytes([n]) * 32) for n in (1, 2, 9))


class Kept(msgspec.Struct):
    """What a server would have stored."""

    log: Log = Log(ORIGIN)
    lines: list[bytes] = []
    heads: list[Head] = []
    keys: list[KeySpan] = []
    signer: Signer = ONE

    def add(self, record: Record, at: int | None = None) -> None:
        added = self.log.append(record, START + 1000 * self.log.size if at is None else at)
        self.log = added.log
        self.lines.append(added.line)

    def sign(self, signers: Sequence[Signer] = ()) -> None:
        self.log, head = self.log.sign(signers or [self.signer])
        self.heads.append(head)

    def rotate(self, new: Signer) -> None:
        note = rotation_note(self.log.size, self.signer, new)
        actor = Actor("system", "server")
        self.add(Record(tenant=TENANT, actor=actor, action="log.rotated", rotation=note))
        self.signer = new
        self.keys.append(KeySpan(self.log.size, new.key))

    def export(self, folder: Path) -> Path:
        export_folder(folder, ORIGIN, self.lines, self.heads, self.keys, START + 10**6)
        return folder


def a_record(number: int = 0, *, tenant: str = TENANT) -> Record:
    return Record(
        tenant=tenant,
        actor=Actor("user", f"u-{number % 3}", auth="session", ip="192.0.2.7"),
        action="replay.finished",
        env="staging",
        source=Source(f"x-{number}"),
        replay_id=f"r-{number}",
        outcome="ok",
    )


def a_log(count: int, *, signer: Signer = ONE, each: int = 1) -> Kept:
    """``count`` records, and a head after every ``each`` of them and after the last."""
    kept = Kept(signer=signer, keys=[KeySpan(0, signer.key)])
    for number in range(count):
        kept.add(a_record(number))
        if kept.log.size % each == 0 or kept.log.size == count:
            kept.sign()
    return kept


def resigned(kept: Kept, lines: Sequence[bytes], signer: Signer = ONE) -> Kept:
    """What ``kept`` would be had these lines been signed, with heads of the same sizes."""
    log = Log(ORIGIN)
    heads: list[Head] = []
    sizes = {head.size for head in kept.heads} | {len(lines)}
    frontier = log.frontier
    for line in lines:
        frontier, _ = frontier.append(hash_leaf(line))
        if frontier.size in sizes:
            checkpoint = Checkpoint(ORIGIN, frontier.size, frontier.root())
            heads.append(sign_head(checkpoint, [signer]))
    return Kept(log, list(lines), heads, [KeySpan(0, signer.key)], signer)


def edited(line: bytes, **fields: object) -> bytes:
    """The line of a record that says something else."""
    return jcs({**msgspec.json.decode(line), **fields})
