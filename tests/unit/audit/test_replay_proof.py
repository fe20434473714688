"""A replay that can be shown to whoever has only the key."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from reenact.audit.keys import Key
from reenact.audit.merkle import Nodes, hash_leaf, prove_inclusion
from reenact.audit.proof import Proof
from reenact.audit.record import Actor, Record, Source
from reenact.audit.replay_proof import (
    Opening,
    ReplayProof,
    check_replay_proof,
    dump_replay_proof,
    is_replay_proof,
    parse_replay_proof,
    salted_digest,
)
from reenact.errors import AuditInvalid
from tests.unit.audit.samples import ONE, TENANT, TWO, Kept, a_log, a_record, resigned

BEFORE, AFTER = {"body": {"amount": 1}}, {"body": {"amount": 5}, "raw": b"\x00\xff"}
OUTPUT = {"status": "completed", "result": {"total": 50}}
SALTS = [bytes([n]) * 32 for n in (1, 2, 3)]
DIGESTS = [
    salted_digest(value, salt) for value, salt in zip((BEFORE, AFTER, OUTPUT), SALTS, strict=True)
]


def _requested(**more: Any) -> Record:
    given = {
        "tenant": TENANT,
        "actor": Actor("user", "ada"),
        "action": "replay.requested",
        "env": "staging",
        "source": Source("x-1"),
        "replay_id": "r-1",
        "boundaries": "recorded",
        "payload_digest_before": DIGESTS[0],
        "payload_digest_after": DIGESTS[1],
        "permission": "replay:execute",
        "tier": "business",
    }
    return Record(**{**given, **more})


def _finished(**more: Any) -> Record:
    given = {
        "tenant": TENANT,
        "actor": Actor("agent", "a-1"),
        "action": "replay.finished",
        "env": "staging",
        "source": Source("x-1"),
        "replay_id": "r-1",
        "outcome": "ok",
        "result_digest": DIGESTS[2],
        "trace_digest": "sha256:" + "0" * 64,
    }
    return Record(**{**given, **more})


def _log(*records: Record) -> Kept:
    kept = a_log(3)
    for record in records:
        kept.add(record)
        kept.sign()
    return kept


def _proof(kept: Kept, seq: int) -> str:
    nodes = Nodes(map(hash_leaf, kept.lines))
    path = prove_inclusion(seq, kept.log.size, nodes.at)
    return Proof(kept.lines[seq], seq, tuple(path), kept.heads[-1]).to_text()


def _values(*which: int) -> tuple[Opening, ...]:
    values = (BEFORE, AFTER, OUTPUT)
    return tuple(Opening(DIGESTS[n], SALTS[n], values[n]) for n in which)


def _file(kept: Kept | None = None, **more: Any) -> bytes:
    kept = kept or _log(_requested(), _finished())
    given = {
        "replay_id": "r-1",
        "key": ONE.key.to_text(),
        "requested": _proof(kept, 3),
        "finished": _proof(kept, 4),
        "values": _values(0, 1, 2),
    }
    return dump_replay_proof(ReplayProof(**{**given, **more}))


def test_this_payload_produced_this_output() -> None:
    shown = check_replay_proof(_file(), [ONE.key])
    assert (shown.payload_before, shown.payload_after, shown.output) == (BEFORE, AFTER, OUTPUT)
    assert shown.finished is not None
    assert (shown.requested.seq, shown.finished.seq) == (3, 4)
    assert len(shown.proven) == 4
    assert shown.not_proven == ("that the app reported truthfully which code it ran",)


def test_it_is_read_as_it_was_written() -> None:
    data = _file()
    assert is_replay_proof(data)
    assert dump_replay_proof(parse_replay_proof(data)) == data
    assert not is_replay_proof(b"c2sp.org/tlog-proof@v1\n")


def test_what_was_erased_is_not_proven() -> None:
    shown = check_replay_proof(_file(values=_values(1)), [ONE.key])
    assert (shown.payload_before, shown.output) == (msgspec.UNSET, msgspec.UNSET)
    assert "the output: it is not in this file" in shown.not_proven


def test_a_replay_that_has_not_ended() -> None:
    shown = check_replay_proof(_file(finished="", values=_values(0, 1)), [ONE.key])
    assert shown.finished is None
    assert "the result: the replay had not ended when this file was created" in shown.not_proven


def _reason(data: bytes, *keys: Key) -> str:
    with pytest.raises(AuditInvalid) as caught:
        check_replay_proof(data, keys or [ONE.key])
    assert caught.value.exit_code == 3
    return caught.value.reason


def test_another_key_shows_nothing() -> None:
    assert _reason(_file(), TWO.key) == "note.unsigned"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_another_value_or_salt_is_refused(which: int) -> None:
    good = _values(0, 1, 2)[which]
    for bad in (
        Opening(good.digest, good.salt, {"body": {"amount": 2}}),
        Opening(good.digest, bytes(32), good.value),
        Opening("hmac-sha256:" + "0" * 64, good.salt, good.value),
    ):
        assert _reason(_file(values=(bad,))) == "replay.value"


@pytest.mark.parametrize(
    "first, last",
    [
        (_requested(), _finished(replay_id="r-2")),
        (_requested(replay_id="r-2"), _finished()),
        (_finished(), _requested()),
        (_requested(), _finished(source=Source("x-2"))),
        (_requested(), a_record(2)),
    ],
)
def test_records_that_do_not_belong_together_are_refused(first: Record, last: Record) -> None:
    assert _reason(_file(_log(first, last))) == "replay.records"


def test_a_replay_that_ended_before_it_began_is_refused() -> None:
    kept = _log(_finished(), _requested())
    data = _file(kept, requested=_proof(kept, 4), finished=_proof(kept, 3))
    assert _reason(data) == "replay.records"


def test_two_histories_are_refused() -> None:
    kept = _log(_requested(), _finished())
    forged = resigned(kept, [kept.lines[1], *kept.lines[1:]])
    nodes = Nodes(map(hash_leaf, forged.lines))
    path = prove_inclusion(4, len(forged.lines), nodes.at)
    other = Proof(forged.lines[4], 4, tuple(path), forged.heads[-1]).to_text()
    assert _reason(_file(kept, finished=other)) == "replay.records"


@pytest.mark.parametrize(
    "change",
    [
        {"format": {"name": "reenact-audit", "version": "1.0"}},
        {"values": [{"digest": DIGESTS[0], "salt": "AAAA", "value": 1}]},
        {"values": [{"digest": DIGESTS[0], "salt": b64encode(bytes(32)).decode()}]},
        {"requested": 5},
        {"replayId": None},
    ],
)
def test_what_is_not_one_is_refused(change: dict[str, Any]) -> None:
    whole = {**json.loads(_file()), **change}
    assert _reason(json.dumps(whole).encode()) == "replay.malformed"


def test_other_files_and_versions_are_refused() -> None:
    assert _reason(b"") == "replay.malformed"
    assert _reason(b"{}") == "replay.malformed"
    whole = json.loads(_file())
    whole["format"]["version"] = "2.0"
    assert _reason(json.dumps(whole).encode()) == "replay.version"


def test_no_byte_of_a_proof_in_it_can_be_changed() -> None:
    whole = json.loads(_file())
    text = whole["requested"]
    for at in range(0, len(text), 7):
        other = "A" if text[at] != "A" else "B"
        whole["requested"] = text[:at] + other + text[at + 1 :]
        with pytest.raises(AuditInvalid):
            check_replay_proof(json.dumps(whole).encode(), [ONE.key])
