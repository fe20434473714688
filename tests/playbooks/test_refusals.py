"""What the policy forbids is forbidden in a replay too, and a recorded refusal is used up."""

from __future__ import annotations

import pytest

from reenact.policy.model import (
    BoundaryRule,
    Budgets,
    CapabilityRule,
    Ignore,
    Mode,
    NetRules,
    Pinned,
    Policy,
)
from reenact.testing import Playbook, Scripted, memory_session, recording

NO_TOOLS = Policy(
    id="p", capabilities={"net.fetch": CapabilityRule(), "tool.call": CapabilityRule(allow=False)}
)
TWO_CALLS = Policy(id="p", capabilities={"net.fetch": CapabilityRule(calls=2)})
EVERY_MODE = pytest.mark.parametrize("mode", ["record", "rewrite", "replay", "record_missing"])


@EVERY_MODE
def test_what_is_denied_or_unknown_is_refused_in_every_mode(mode: Mode) -> None:
    Playbook("", mode=mode, policy=NO_TOOLS).check("""
        0  tool search {}  -> refuse policy.denied
        0  db.query sel {} -> refuse policy.denied
        0  rng random      -> refuse policy.denied
    """)


@EVERY_MODE
def test_what_is_blocked_is_refused_in_every_mode(mode: Mode) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="put", action="block"),))
    Playbook("", mode=mode, policy=policy).check('0  network put {"x": 1}  -> refuse policy.denied')


def test_a_refused_call_is_no_call_of_its_budget() -> None:
    Playbook(mode="record", policy=TWO_CALLS).check("""
        0  network get {"x": 1}  -> live
        0  tool search {}        -> refuse policy.denied
        0  network get {"x": 1}  -> live
        0  network get {"x": 1}  -> refuse policy.budget
        0  network get {"x": 1}  -> refuse policy.budget
    """)


def test_a_recorded_refusal_is_repeated_and_used_up() -> None:
    Playbook(
        """
        0  tool search {}        denied
        0  network get {"x": 1}  = "one"
        """,
        policy=NO_TOOLS,
    ).check("""
        0  tool search {}        -> refuse policy.denied as 1
        0  tool search {}        -> refuse policy.denied
        0  network get {"x": 1}  -> serve 3
        unused                   -> nothing
        head                     -> nothing
    """)


def test_a_budget_runs_out_at_the_same_call_again() -> None:
    Playbook(
        """
        0  network get {"x": 1}  = 1
        0  network get {"x": 1}  = 2
        0  network get {"x": 1}  budget
        """,
        policy=TWO_CALLS,
    ).check("""
        0  network get {"x": 1}  -> serve 1
        0  network get {"x": 1}  -> serve 2
        0  network get {"x": 1}  -> refuse policy.budget as 3
        unused                   -> nothing
    """)


def test_a_refusal_is_found_under_rules_that_came_later() -> None:
    policy = Policy(id="p", ignore=Ignore(paths=("$.args.id",)), capabilities=NO_TOOLS.capabilities)
    Playbook('0  tool search {"id": 1}  denied', policy=policy).check("""
        0  tool search {"id": 2}  -> refuse policy.denied as 1
        unused                    -> nothing
    """)


def test_a_call_that_is_forbidden_by_now_leaves_its_recording_unused() -> None:
    Playbook("0  tool search {}  = 1", policy=NO_TOOLS).check("""
        0  tool search {}  -> refuse policy.denied
        unused             -> 1
    """)


def test_a_recorded_refusal_that_is_allowed_by_now_is_served_as_it_was() -> None:
    Playbook("0  tool search {}  denied").check("""
        0  tool search {}  -> serve 1
        unused             -> nothing
    """)


def test_net_rules_hold_in_a_replay() -> None:
    rules = NetRules(domains=("*.example.com",), methods=("GET",))
    Playbook(
        """
        0  network get {"method": "GET", "url": "https://api.example.com/"}  = 1
        0  network get {"method": "GET", "url": "https://example.org/"}      = 2
        """,
        policy=Policy(id="p", net=rules),
    ).check("""
        0  network get {"method": "GET", "url": "https://api.example.com/"}   -> serve 1
        0  network get {"method": "GET", "url": "https://example.org/"}       -> refuse policy.refused
        0  network get {"method": "POST", "url": "https://api.example.com/"}  -> refuse policy.refused
        unused                                                               -> 2
    """)


def test_sizes_have_budgets() -> None:
    small = Policy(id="p", budgets=Budgets(request_bytes=16, key_bytes=80))
    Playbook(mode="record", policy=small).check("""
        0  network get {"x": 1}                          -> live
        0  network get {"x": "a text that is too long"}  -> refuse policy.budget
    """)
    keys = Policy(id="p", budgets=Budgets(key_bytes=3))
    Playbook(mode="record", policy=keys).check("""
        0  clock now   -> live
        0  clock then  -> refuse policy.budget
    """)


def test_the_index_lists_kinds_and_operations() -> None:
    policy = Policy(id="p")
    pinned = Pinned(policy, "", kinds=("network",), operations=("get", "se*"))
    Playbook(mode="record", pinned=pinned).check("""
        0  network get {}     -> live
        0  network select {}  -> live
        0  network put {}     -> refuse policy.refused
        0  tool get {}        -> refuse policy.refused
    """)


def test_a_refusal_does_not_hold_up_what_comes_after_it() -> None:
    def program(session: object, live: Scripted) -> object:
        with pytest.raises(Exception, match="does not allow"):
            session.call("search", {}, live)  # type: ignore[attr-defined]
        return session.call("get", {"x": 1}, live, capability="net.fetch")  # type: ignore[attr-defined]

    with Scripted("one") as live, memory_session(policy=NO_TOOLS) as session:
        assert program(session, live) == "one"
    with memory_session(session.recorded(), policy=NO_TOOLS) as replay:
        assert program(replay, Scripted()) == "one"
    assert [event.type for event in session.recorded()] == [
        "tool_call",
        "tool_result",
        "nondeterministic",
    ]


def test_a_refusal_keeps_its_place_when_something_is_added() -> None:
    old = recording("""
        0  tool search {}        denied
        0  network get {"x": 1}  = "one"
    """)

    def program(session: object) -> None:
        with pytest.raises(Exception, match="does not allow"):
            session.call("search", {}, Scripted())  # type: ignore[attr-defined]
        for x in (1, 2):
            session.call("get", {"x": x}, lambda: "new", capability="net.fetch")  # type: ignore[attr-defined]

    with memory_session(old, mode="record_missing", policy=NO_TOOLS) as session:
        program(session)
    with memory_session(session.recorded(), policy=NO_TOOLS) as replay:
        program(replay)
    assert replay.report().status == "ok"
