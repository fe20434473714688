"""Cassettes under a pinned policy: what the policy and its index entry allow, limit and hide."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import PolicyInvalid, PolicyRefused, rr
from reenact.rr.entries import (
    CFG_INVALID,
    OVER_CASSETTE_BYTES,
    OVER_ENTRIES,
    OVER_KEY_BYTES,
    OVER_REQ_BYTES,
    OVER_RESP_BYTES,
)
from tests.unit.policy.arches import ARCH_POLICY, ARCH_SANITIZER, REFERENCE, arch_index, put_arch
from tests.unit.policy.sets import POLICY, SANITIZER, put_set
from tests.unit.rr.cassettes import contents, file, raises_number, write

ID = "smoke_rr_v1"
FETCH = "std.rr.fetch_v1"
PONG = rr.Entry(kind="rr", op=FETCH, key=b"C", req=b"C?", resp=b"PONG")
MODES = ("off", "record", "replay", "record_missing", "rewrite")


def _policy(root: Path, fields: dict[str, Any] | None = None, **more: Any) -> None:
    """Pin the policy. It is not the default one, so it holds only where it is named."""
    put_set(root, {**POLICY, "id": ID, **(fields or {})}, **more)


def _document(path: str, mode: int) -> bytes:
    limits = struct.pack("<Q4I", 1 << 40, 1000, 1 << 20, 1 << 20, 1 << 10)
    head = b"X7RC" + struct.pack("<HHBBH", 1, 0, mode, 0, 0)
    return head + limits + struct.pack("<I", len(path)) + path.encode()


FORMS: dict[str, Callable[[str, int], rr.Scope]] = {
    "cfg field": lambda path, mode: rr.scope({"path": path, "mode": mode, "policy": ID}),
    "argument": lambda path, mode: rr.scope({"path": path, "mode": mode}, policy=ID),
    "document": lambda path, mode: rr.scope(_document(path, mode), policy=ID),
    "with_policy": lambda path, mode: rr.with_policy(ID, path, mode),
    "bytes": lambda path, mode: rr.with_policy(ID.encode(), path.encode(), mode),
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Callable[[str, int], rr.Scope]:
    return FORMS[request.param]


def test_only_the_kinds_of_the_policy_are_served_and_written(
    root: Path, form: Callable[[str, int], rr.Scope]
) -> None:
    write(PONG, rr.Entry(kind="http", op=FETCH, key=b"C"))
    _policy(root, kinds=["rr"])
    with form("smoke", 2) as handle:
        assert rr.next(handle, "rr", FETCH, "C").resp == b"PONG"
        with pytest.raises(PolicyRefused, match="the kind http"):
            rr.next(handle, "http", FETCH, "C")
    with form("other", 1) as handle, pytest.raises(PolicyRefused, match="the kind http"):
        rr.append(handle, {"kind": "http", "op": FETCH})


def test_only_the_operations_of_the_policy_are_served_and_written(
    root: Path, form: Callable[[str, int], rr.Scope]
) -> None:
    write(PONG, rr.Entry(kind="rr", op="std.rr.send_v1", key=b"C"))
    _policy(root, operations=[FETCH])
    with form("smoke", 2) as handle:
        assert rr.next(handle, "rr", FETCH, "C").resp == b"PONG"
        with pytest.raises(PolicyRefused, match=r"the operation std\.rr\.send_v1"):
            rr.next(handle, "rr", "std.rr.send_v1", "C")
    with form("other", 1) as handle, pytest.raises(PolicyRefused, match="the operation"):
        rr.append(handle, {"kind": "rr", "op": "std.rr.send_v1"})


def test_only_the_modes_of_the_policy_are_opened(
    root: Path, form: Callable[[str, int], rr.Scope]
) -> None:
    write(PONG)
    _policy(root, modes=["replay"])
    for number, name in enumerate(MODES):
        if name == "replay":
            with form("smoke", number) as handle:
                assert rr.next(handle, "rr", FETCH, "C").resp == b"PONG"
        else:
            with pytest.raises(PolicyRefused, match=f"the mode {name} for the policy {ID}"):
                form("smoke", number).__enter__()
    assert contents() == [PONG]


def test_rr_open_takes_the_policy_as_well(root: Path) -> None:
    write(PONG)
    _policy(root, modes=["replay"])
    with pytest.raises(PolicyRefused, match="the mode rewrite"):
        rr.open({"path": "smoke", "mode": "rewrite", "policy": ID})
    handle = rr.open({"path": "smoke"}, policy=ID)
    assert json.loads(rr.stats(handle))["mode"] == MODES.index("replay")
    assert rr.close(handle) == 1


def test_a_policy_is_used_only_in_its_worlds(root: Path) -> None:
    write(PONG)
    _policy(root, worlds=["production"])
    with pytest.raises(PolicyRefused, match="the world test"):
        rr.with_policy(ID, "smoke", 2).__enter__()


@pytest.mark.parametrize(
    "budget, number",
    [
        ({"cassetteBytes": 40}, OVER_CASSETTE_BYTES),
        ({"entries": 0}, OVER_ENTRIES),
        ({"requestBytes": 1}, OVER_REQ_BYTES),
        ({"responseBytes": 3}, OVER_RESP_BYTES),
        ({"keyBytes": 0}, OVER_KEY_BYTES),
    ],
)
@pytest.mark.parametrize("name", ["smoke", "smoke.rrbin"])
def test_every_budget_of_the_policy_holds_when_reading_and_writing(
    root: Path, budget: dict[str, int], number: int, name: str
) -> None:
    write(PONG, path=name)
    _policy(root, {"budgets": budget})
    with raises_number(number):
        rr.with_policy(ID, name, 2).__enter__()
    with rr.with_policy(ID, f"new-{name}", 1) as handle, raises_number(number):
        rr.append(handle, PONG)


def test_the_smaller_limit_of_cfg_and_policy_holds(root: Path) -> None:
    write(PONG)
    _policy(root, {"budgets": {"responseBytes": 100}})
    with raises_number(OVER_RESP_BYTES):
        rr.open({"path": "smoke", "max_resp_bytes": 3}, policy=ID)


@pytest.mark.parametrize("name", ["smoke", "smoke.rrbin"])
def test_the_sanitizer_of_the_policy_redacts_what_is_written(root: Path, name: str) -> None:
    _policy(root, {"sanitizer": "mine"}, sanitizer={**SANITIZER, "secretNames": ["x-badge"]})
    body = b'{"x-badge": "swordfish77"}'
    with rr.with_policy(ID, name, 1) as handle:
        rr.append(handle, {"kind": "rr", "op": FETCH, "key": "C", "resp": body})
    (written,) = (one for one in root.rglob("smoke.*") if one.is_file())
    assert b"swordfish77" not in written.read_bytes()
    with rr.with_policy(ID, name, 2) as handle:
        assert b"swordfish77" not in rr.next(handle, "rr", FETCH, "C").resp


def test_the_policy_decides_how_entries_are_matched(root: Path) -> None:
    write(PONG, rr.Entry(kind="rr", op=FETCH, key=b"D"))
    _policy(root, {"match": "transcript"})
    with rr.with_policy(ID, "smoke", 2) as handle:
        assert json.loads(rr.stats(handle))["match_mode"] == 1


@pytest.mark.parametrize("number, name", tuple(enumerate(MODES)))
@pytest.mark.parametrize("suffix", ["", "_v1", None])
def test_with_policy_takes_the_five_modes_by_number_and_by_name(
    root: Path, number: int, name: str, suffix: str | None
) -> None:
    write(PONG)
    _policy(root)
    mode: int | str = number if suffix is None else f"{name}{suffix}"
    path = "smoke" if name != "record" else "new"
    with rr.with_policy(ID, path, mode) as handle:
        assert rr.current() == handle
        assert json.loads(rr.stats(handle))["mode"] == number
    assert rr.current() == 0


@pytest.mark.parametrize("mode", [5, -1, True, "replay_v2", "update"])
def test_with_policy_refuses_other_modes(root: Path, mode: Any) -> None:
    _policy(root)
    with raises_number(CFG_INVALID) as caught:
        rr.with_policy(ID, "smoke", mode).__enter__()
    assert "0 off, 1 record, 2 replay, 3 record_missing, 4 rewrite" in caught.value.hint


def test_without_a_mode_the_policys_own_is_used(root: Path) -> None:
    _policy(root, {"mode": "record_missing"})
    with rr.with_policy(ID, "smoke") as handle:
        assert json.loads(rr.stats(handle))["mode"] == MODES.index("record_missing")


def test_a_scope_with_a_policy_closes_when_its_body_fails(root: Path) -> None:
    _policy(root)
    with pytest.raises(LookupError), rr.with_policy(ID, "smoke", 1) as handle:
        rr.append(handle, PONG)
        raise LookupError
    assert rr.current() == 0
    assert rr.close(handle) == 0
    assert contents() == [PONG]


def test_two_different_policies_for_one_cassette_are_refused(root: Path) -> None:
    _policy(root)
    with raises_number(CFG_INVALID):
        rr.open({"path": "smoke", "policy": ID}, policy="default")
    with raises_number(CFG_INVALID):
        rr.open({"path": "smoke", "policy": 7})


def test_an_edited_policy_is_refused_until_it_is_pinned(root: Path) -> None:
    _policy(root, {"budgets": {"entries": 1}})
    path = root / f".reenact/policies/{ID}.policy.json"
    path.write_text(path.read_text().replace("1}", "9}"))
    with pytest.raises(PolicyInvalid) as caught:
        rr.with_policy(ID, "smoke", 1).__enter__()
    assert f"reenact policy pin {ID}" in caught.value.hint


# X07's own files


def test_a_policy_of_arch_rr_holds_where_there_is_no_index(root: Path) -> None:
    reference = {**REFERENCE, "worlds_allowed": ["solve-rr"]}
    defaults = {"record_modes_allowed": ["record_v1", "replay_v1"]}
    budgets = {**ARCH_POLICY["budgets"], "max_resp_bytes": 4}
    put_arch(
        root,
        index=arch_index(reference, defaults=defaults),
        policy={**ARCH_POLICY, "budgets": budgets},
        sanitizer={**ARCH_SANITIZER, "redact_headers": ["x-badge"]},
    )
    with rr.with_policy(ID, "smoke", "record_v1") as handle:
        rr.append(handle, PONG)
        with raises_number(OVER_RESP_BYTES):
            rr.append(handle, {"kind": "rr", "op": FETCH, "resp": "PONG!"})
        with pytest.raises(PolicyRefused) as caught:
            rr.append(handle, {"kind": "http", "op": FETCH})
        assert "arch/rr/index.x07rr.json" in caught.value.hint
        rr.append(handle, {"kind": "rr", "op": FETCH, "req": '{"x-badge": "swordfish77"}'})
    assert b"swordfish77" not in file().read_bytes()
    with pytest.raises(PolicyRefused, match="the mode rewrite"):
        rr.with_policy(ID, "smoke", 4).__enter__()
    with reenact.session("smoke", mode="replay", policy=ID, unused="allow"):
        assert list(rr.stream("C", op=FETCH)) == [b"PONG"]


def test_a_refusal_names_the_field_of_x07s_own_index(root: Path) -> None:
    put_arch(root)
    write(PONG)
    with pytest.raises(PolicyRefused) as caught:
        rr.with_policy(ID, "other", 1).__enter__()
    assert "(arch/rr/index.x07rr.json, defaults.record_modes_allowed)" in caught.value.hint
    with rr.with_policy(ID, "smoke", 2) as handle:
        for name, kind, op in (("kinds_allowed", "http", FETCH), ("ops_allowed", "rr", "other")):
            with pytest.raises(PolicyRefused) as caught:
                rr.next(handle, kind, op, "C")
            assert f"(arch/rr/index.x07rr.json, {name})" in caught.value.hint


def test_arch_rr_does_not_add_policies_to_an_index(root: Path) -> None:
    put_arch(root)
    put_set(root, POLICY)
    with pytest.raises(PolicyInvalid) as caught:
        rr.with_policy(ID, "smoke", 2).__enter__()
    assert caught.value.hint == "reenact policy import arch/rr"


def test_mistakes_in_arch_rr_are_reported(root: Path) -> None:
    put_arch(root, policy=b"{")
    with pytest.raises(PolicyInvalid, match=r"policies/smoke_rr_v1\.policy\.json"):
        rr.with_policy(ID, "smoke", 2).__enter__()
    put_arch(root)
    with pytest.raises(PolicyInvalid, match=r"arch/rr/index\.x07rr\.json does not name") as caught:
        rr.with_policy("smoke_rr_v2", "smoke", 2).__enter__()
    assert caught.value.hint == f"did you mean {ID}?"


@pytest.mark.parametrize("name", ["smoke", "smoke.rrbin"])
def test_files_of_cassettes_and_policies_are_not_recorded_by_a_session(
    root: Path, name: str
) -> None:
    put_arch(
        root,
        index=arch_index(REFERENCE, defaults={"record_modes_allowed": ["record_v1", "replay_v1"]}),
    )
    fixtures = {"fixture_root": "fixtures", "policy": ID}
    with reenact.session("talk", mode="record", files=["."]) as session:
        with rr.scope({"path": name, "mode": 1, **fixtures}) as handle:
            rr.append(handle, PONG)
        with rr.scope({"path": name, "mode": 2, **fixtures}) as handle:
            assert rr.next(handle, "rr", FETCH, "C") == PONG
    assert session.manifest is not None
    assert session.manifest.event_count == 0
