"""Records, the digests in them, and the log they are appended to."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec
import pytest
import rfc8785

from reenact.audit.log import Log
from reenact.audit.merkle import hash_leaf
from reenact.audit.record import (
    ACTIONS,
    MAX_RECORD,
    OUTCOMES,
    Actor,
    Change,
    DiffSummary,
    Record,
    Source,
    Subject,
    Target,
    encode_record,
    open_envelope,
    read_record,
)
from reenact.audit.replay_proof import matches_salted_digest, salted_digest
from reenact.errors import AuditInvalid, UsageError, ValueRefused
from tests.unit.audit.samples import ONE, ORIGIN, START, TENANT, a_log, a_record, edited

FULL = Record(
    tenant=TENANT,
    actor=Actor("user", "u-1", "session", "s-9", "192.0.2.7", "Browser/1 “x”"),
    action="replay.requested",
    env="production",
    source=Source("x-1", "sha256:00", "orders", "rev-3"),
    target=Target("a-1", "shop", "rev-4"),
    replay_id="r-1",
    boundaries="recorded",
    patch=(Change("replace", "/body/amount", before="hmac-sha256:00", after="hmac-sha256:11"),),
    payload_digest_before="hmac-sha256:22",
    payload_digest_after="hmac-sha256:33",
    command_digest="sha256:44",
    reason="Kunde fragt nach \U0001f600",
    permission="replay:execute:production",
    tier="business",
    outcome="ok",
    code="",
    result_exchange_id="x-2",
    result_digest="sha256:55",
    trace_digest="sha256:66",
    diff_summary=DiffSummary("fixed", 1, 2, 3),
    subject=Subject("exchange", "x-1"),
    details={"\ue000": "a", "\U0001f600": "b", "$blob": "c"},
)


def test_a_leaf_is_rfc_8785_and_reads_back() -> None:
    leaf = encode_record(FULL)
    assert leaf == rfc8785.dumps(msgspec.json.decode(leaf))
    assert read_record(leaf) == FULL
    value = msgspec.json.decode(leaf)
    assert value["prevHeadSize"] == 0
    assert value["patch"] == [
        {
            "op": "replace",
            "path": "/body/amount",
            "before": "hmac-sha256:00",
            "after": "hmac-sha256:11",
        }
    ]
    assert "code" not in value


def test_what_every_record_says_is_there_even_when_it_is_nothing() -> None:
    value = msgspec.json.decode(encode_record(a_record()))
    assert {name: value[name] for name in ("v", "seq", "at", "prevHeadSize")} == {
        "v": 1,
        "seq": 0,
        "at": 0,
        "prevHeadSize": 0,
    }


def test_every_action_names_fields_of_a_record() -> None:
    fields = {field.name for field in msgspec.structs.fields(Record)}
    assert {name for required in ACTIONS.values() for name in required} <= fields
    assert all("denied" in OUTCOMES for _ in ACTIONS)
    assert {"replay.requested", "replay.finished", "replay.denied", "log.rotated"} <= set(ACTIONS)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_must_say_all_it_must(action: str) -> None:
    empty = Record(tenant=TENANT, actor=Actor("user", "u"), action=action)
    whole = msgspec.structs.replace(FULL, action=action, code="x", rotation="x")
    assert read_record(encode_record(whole)).action == action
    if ACTIONS[action]:
        with pytest.raises(AuditInvalid, match="requires ") as caught:
            encode_record(empty)
        assert caught.value.reason == "record.refused"
    else:
        assert read_record(encode_record(empty)) == empty


@pytest.mark.parametrize(
    "change, says",
    [
        ({"action": "moon.landed"}, "does not exist in version"),
        ({"v": 2}, "does not exist in version"),
        ({"outcome": "so so"}, "no outcome"),
        ({"tenant": ""}, "has a tenant"),
        ({"actor": Actor("user", "")}, "has a tenant and an actor"),
        ({"reason": "x" * MAX_RECORD}, "bytes, more than"),
        ({"reason": "\ud800"}, "urrogate"),
        ({"seq": -1}, "seq"),
        ({"at": 2**53}, "at"),
        ({"at": 1.5}, "at"),
        ({"details": {"a": 1}}, "details"),
    ],
)
def test_what_cannot_be_recorded_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(AuditInvalid, match=says):
        encode_record(msgspec.structs.replace(FULL, **change))


@pytest.mark.parametrize(
    "leaf",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        encode_record(FULL) + b" ",
        encode_record(FULL).replace(b'"v":1', b'"v":1.0'),
        encode_record(FULL).replace(b'"v":1', b'"v":0'),
        encode_record(FULL).replace(b'"v":1', b'"v":true'),
        encode_record(FULL).replace(b'"seq":0', b'"seq":-1'),
        encode_record(FULL).replace(b'"seq":0', b'"seq":9007199254740992'),
        encode_record(FULL).replace(b'"seq":0', b'"seq":0,"seq":0'),
        encode_record(FULL).replace(b'"seq":0,', b""),
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'"' + b"x" * MAX_RECORD + b'"',
    ],
    ids=range(15),
)
def test_what_is_not_exactly_a_record_is_refused(leaf: bytes) -> None:
    with pytest.raises(AuditInvalid, match="not an audit record") as caught:
        open_envelope(leaf)
    assert caught.value.reason == "record.malformed"


def test_a_record_of_tomorrow_can_be_verified_and_not_read() -> None:
    more = edited(encode_record(FULL), surprise=[1], action="moon.landed")
    assert open_envelope(more).action == "moon.landed"
    assert read_record(more).action == "moon.landed"
    later = edited(more, v=2)
    assert open_envelope(later).v == 2
    with pytest.raises(AuditInvalid, match="later version") as caught:
        read_record(later)
    assert caught.value.reason == "record.version"


def test_a_log_numbers_stamps_and_chains() -> None:
    log = Log(ORIGIN)
    first = log.append(a_record(), START)
    log, head = first.log.sign([ONE])
    second = log.append(a_record(), START - 5)
    assert (second.record.seq, second.record.at) == (1, START)
    assert (first.record.prev_head_size, second.record.prev_head_size) == (0, 1)
    assert first.nodes[0].hash == hash_leaf(first.line) == head.root
    assert [(node.level, node.index) for node in second.nodes] == [(0, 1), (1, 0)]
    assert second.log.size == 2
    assert second.log.head_size == 1


def test_a_log_takes_no_record_of_another_tenant() -> None:
    with pytest.raises(AuditInvalid, match="does not belong into") as caught:
        Log(ORIGIN).append(a_record(tenant="t-2"), START)
    assert caught.value.reason == "record.foreign"


def test_the_same_log_twice_is_the_same_bytes() -> None:
    one, two = a_log(20), a_log(20)
    assert one.lines == two.lines
    assert [head.to_text() for head in one.heads] == [head.to_text() for head in two.heads]


def test_a_salted_digest_is_an_hmac_over_canonical_json() -> None:
    salt = bytes(range(32))
    value = {"b": 1.0, "a": ["é", None, b"\x00"]}
    text = b'reenact audit value 1\n{"a":["\xc3\xa9",null,{"$bytes":"AA=="}],"b":1}'
    digest = "hmac-sha256:" + hmac.new(salt, text, hashlib.sha256).hexdigest()
    assert salted_digest(value, salt) == digest
    assert matches_salted_digest(digest, value, salt)
    assert not matches_salted_digest(digest, value, bytes(32))
    assert not matches_salted_digest(digest, {**value, "b": 2}, salt)


def test_the_same_value_under_two_salts_is_two_digests() -> None:
    assert salted_digest(5, bytes(32)) != salted_digest(5, b"\x01" * 32)


@pytest.mark.parametrize("salt", [b"", b"x" * 31, b"x" * 33])
def test_a_salt_of_another_size_is_refused(salt: bytes) -> None:
    with pytest.raises(UsageError, match="a salt has 32 bytes"):
        salted_digest(1, salt)


def test_a_value_that_is_no_json_has_no_digest() -> None:
    with pytest.raises(ValueRefused):
        salted_digest(float("nan"), bytes(32))
