"""Whether a call may be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.errors import BudgetExceeded, CapabilityDenied, PolicyRefused
from reenact.policy.access import (
    BUILT_IN,
    Access,
    Capabilities,
    check_mode,
    over_bytes,
    over_entries,
    over_key,
    over_request,
    over_response,
)
from reenact.policy.model import DEFAULT, BoundaryRule, Budgets, CapabilityRule, Pinned, Policy


def _access(known: Capabilities | None = None, pinned: Any = None, **settings: Any) -> Access:
    policy = Policy(id="p", **settings)
    return Access(replace(Pinned.of(policy), **(pinned or {})), known or Capabilities())


def test_default_allows_what_is_built_in() -> None:
    access = Access(Pinned.of(DEFAULT), Capabilities())
    assert [access.refusal(name, "x", "y", 10**9) for name in BUILT_IN] == [None] * len(BUILT_IN)


def test_unknown_capability_is_denied_with_the_nearest_name() -> None:
    found = _access().refusal("net.fecth", "network", "GET", 0)
    assert type(found) is CapabilityDenied
    assert "did you mean net.fetch?" in found.hint
    assert found.exit_code == 4
    assert found.fields["capability"] == "net.fecth"


def test_registered_capability_is_denied_until_a_policy_names_it() -> None:
    known = Capabilities()
    access = _access(known)
    assert isinstance(access.refusal("db.query", "db", "q", 0), CapabilityDenied)
    known.register("db.query")
    denied = access.refusal("db.query", "db", "q", 0)
    assert type(denied) is CapabilityDenied
    assert "capabilities" in denied.hint
    named = _access(known, capabilities={"db.query": CapabilityRule()})
    assert named.refusal("db.query", "db", "q", 0) is None


def test_capability_registered_after_a_refusal_is_allowed() -> None:
    known = Capabilities()
    access = _access(known, capabilities={"db.query": CapabilityRule()})
    assert access.refusal("db.query", "db", "q", 0) is not None
    known.register("db.query")
    assert access.refusal("db.query", "db", "q", 0) is None


def test_given_capabilities_are_all_there_are() -> None:
    access = _access(capabilities={"llm.call": CapabilityRule()})
    assert access.refusal("llm.call", "llm", "x", 0) is None
    denied = access.refusal("net.fetch", "network", "x", 0)
    assert type(denied) is CapabilityDenied
    assert '"net.fetch": {"allow": true}' in denied.hint


def test_allow_false_denies() -> None:
    access = _access(capabilities={"llm.call": CapabilityRule(allow=False)})
    assert isinstance(access.refusal("llm.call", "llm", "x", 0), CapabilityDenied)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_call_budget_is_a_limit_and_zero_means_zero(limit: int) -> None:
    access = _access(capabilities={"llm.call": CapabilityRule(calls=limit)})
    found = [access.refusal("llm.call", "llm", "x", calls) for calls in range(limit + 2)]
    assert [one is None for one in found] == [calls < limit for calls in range(limit + 2)]
    last = found[-1]
    assert isinstance(last, BudgetExceeded)
    assert last.fields["limit"] == limit
    assert last.fields["actual"] == limit + 2


def test_kinds_and_operations_of_the_index_are_enforced() -> None:
    access = _access(pinned={"kinds": ("network",), "operations": ("GET *", "HEAD *")})
    assert access.refusal("net.fetch", "network", "GET a.com", 0) is None
    wrong_kind = access.refusal("tool.call", "tool", "GET a.com", 0)
    assert type(wrong_kind) is PolicyRefused
    assert wrong_kind.fields["kind"] == "tool"
    wrong_operation = access.refusal("net.fetch", "network", "get a.com", 0)
    assert type(wrong_operation) is PolicyRefused
    assert wrong_operation.fields["operation"] == "get a.com"


def test_empty_lists_allow_nothing() -> None:
    for pinned in ({"kinds": ()}, {"operations": ()}):
        assert _access(pinned=pinned).refusal("net.fetch", "network", "GET", 0) is not None


def test_block_rule_denies() -> None:
    access = _access(boundaries=(BoundaryRule(operation="rm", action="block"),))
    assert type(access.refusal("process.exec", "process", "rm", 0)) is CapabilityDenied
    assert access.refusal("process.exec", "process", "ls", 0) is None


@pytest.mark.parametrize("capability", sorted({*BUILT_IN, "db.query"}))
def test_pass_needs_permission_where_it_leads_outside(capability: str) -> None:
    known = Capabilities()
    known.register("db.query")
    settings = {
        "boundaries": (BoundaryRule(action="pass"),),
        "capabilities": {capability: CapabilityRule()},
    }
    found = _access(known, **settings).refusal(capability, "x", "y", 0)
    inside = capability in {"time.now", "random", "env.read", "fs.read", "fs.write"}
    assert (found is None) is inside
    assert found is None or "allowPassthrough" in found.hint
    allowed = _access(known, allow_passthrough=True, **settings)
    assert allowed.refusal(capability, "x", "y", 0) is None


def test_every_refusal_is_a_new_instance() -> None:
    access = _access(capabilities={})
    first = access.refusal("net.fetch", "network", "x", 0)
    second = access.refusal("net.fetch", "network", "x", 0)
    assert first is not None
    assert first is not second
    assert str(first) == str(second)


def test_decisions_are_right_beyond_the_cache() -> None:
    access = _access(boundaries=(BoundaryRule(operation="9*", action="block"),))
    for number in range(10_000):
        found = access.refusal("tool.call", "tool", str(number), 0)
        assert (found is None) is not str(number).startswith("9")


def test_mode_and_world_of_the_index_are_enforced() -> None:
    pinned = replace(Pinned.of(DEFAULT), modes=("replay",), worlds=("ci", "test"))
    check_mode(pinned, "replay", "ci")
    with pytest.raises(PolicyRefused, match="mode record") as found:
        check_mode(pinned, "record", "ci")
    assert "allowed: replay" in found.value.hint
    with pytest.raises(PolicyRefused, match="world production"):
        check_mode(pinned, "replay", "production")
    check_mode(Pinned.of(DEFAULT), "rewrite", "production")


@pytest.mark.parametrize(
    "over, field, name",
    [
        (over_bytes, "cassette_bytes", "cassetteBytes"),
        (over_entries, "entries", "entries"),
        (over_request, "request_bytes", "requestBytes"),
        (over_response, "response_bytes", "responseBytes"),
        (over_key, "key_bytes", "keyBytes"),
    ],
)
def test_budget(
    over: Callable[[Policy, int], BudgetExceeded | None], field: str, name: str
) -> None:
    assert over(DEFAULT, 10**12) is None
    zero = Policy(id="p", budgets=Budgets(**{field: 0}))
    assert over(zero, 0) is None
    assert over(zero, 1) is not None
    ten = Policy(id="p", budgets=Budgets(**{field: 10}))
    assert over(ten, 10) is None
    found = over(ten, 11)
    assert found is not None
    assert (found.fields["budget"], found.fields["limit"], found.fields["actual"]) == (name, 10, 11)
    assert f"budgets.{name}" in found.hint
