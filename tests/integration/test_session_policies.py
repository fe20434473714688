"""What a policy says is done, while recording and in a replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import (
    BudgetExceeded,
    CapabilityDenied,
    DivergenceError,
    Policy,
    PolicyInvalid,
    PolicyRefused,
)
from reenact.engine.call import Call
from reenact.policy.access import KNOWN
from reenact.policy.model import BoundaryRule, Budgets, CapabilityRule, NetRules
from tests.integration.sessions import Studio, outcome
from tests.unit.policy.sets import POLICY, SANITIZER, put_set


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _session() -> reenact.Session:
    session = reenact.current()
    assert session is not None
    return session


def _call(capability: str, operation: str = "op", **request: Any) -> Any:
    return outcome(lambda: _session().call(operation, request, lambda: 1, capability=capability))


def _same(studio: Studio, body: Callable[[], Any], policy: Policy) -> Any:
    """What ``body`` gives while recording, and in every replay."""
    made = studio.record(body, policy=policy)
    assert studio.replay(body, policy=policy) == made
    assert studio.warnings == []
    reenact.verify(studio.path())
    return made


# Capabilities


def test_denied_calls_are_recorded_as_pairs_and_denied_again(studio: Studio) -> None:
    policy = Policy(id="p", capabilities={"net.fetch": CapabilityRule()})

    def body() -> Any:
        return [
            _call("tool.call"),
            _call("process.exec"),
            _call("llm.call"),
            _call("db.query"),
            outcome(lambda: list(studio.words(1))),
            outcome(lambda: asyncio.run(_session().aio.call("tool", {}))),
            studio.get(1),
        ]

    made = _same(studio, body, policy)
    assert [one[0] for one in made[:-1]] == [CapabilityDenied] * 6
    assert studio.asked == 1
    events = studio.events()
    assert [event.type for event in events].count("tool_call") == 2
    assert [event.type for event in events].count("tool_result") == 2
    kinds = [event.data["error"]["kind"] for event in events if "error" in event.data]
    assert kinds == ["denied"] * 6


def test_a_recorded_denial_is_re_enacted_under_a_policy_that_allows_it(studio: Studio) -> None:
    denies = Policy(id="p", capabilities={"net.fetch": CapabilityRule()})

    def body() -> Any:
        return [_call("tool.call"), _call("process.exec"), studio.get(1)]

    made = studio.record(body, policy=denies)
    assert studio.replay(body) == made


def test_what_is_denied_now_is_denied_though_it_is_recorded(studio: Studio) -> None:
    denies = Policy(id="p", capabilities={"tool.call": CapabilityRule(allow=False)})
    studio.record(lambda: _call("tool.call"))
    with pytest.raises(DivergenceError) as caught:  # the recorded call was not made
        studio.replay(lambda: _call("tool.call"), policy=denies)
    assert caught.value.to_json()["code"] == "event_missing"
    with (
        studio.session(mode="replay", policy=denies, unused="allow"),
        pytest.raises(CapabilityDenied),
    ):
        _session().call("op", {}, lambda: 1)


def test_a_capability_has_a_budget_of_calls(studio: Studio) -> None:
    policy = Policy(id="p", capabilities={"net.fetch": CapabilityRule(calls=2)})
    made = _same(studio, lambda: [outcome(studio.get, n) for n in range(4)], policy)
    assert [one[0] for one in made[2:]] == [BudgetExceeded] * 2
    assert studio.asked == 2
    assert [event.data.get("error", {}).get("kind") for event in studio.events()] == [
        None,
        None,
        "budget",
        "budget",
    ]


def test_capabilities_of_a_program_have_to_be_registered_and_allowed(studio: Studio) -> None:
    KNOWN.register("weather.ask")
    allows = Policy(id="p", capabilities={"weather.ask": CapabilityRule()})
    assert _same(studio, lambda: _call("weather.ask"), allows) == 1
    assert studio.record(lambda: _call("weather.ask"), "other")[0] is CapabilityDenied


def test_the_manifest_names_the_policy_and_the_set_of_capabilities(studio: Studio) -> None:
    policy = Policy(id="mine", capabilities={"net.fetch": CapabilityRule()})
    studio.record(lambda: studio.get(1), policy=policy)
    manifest = studio.manifest()
    assert manifest.policy is not None
    assert manifest.policy.id == "mine"
    assert manifest.capability_set == KNOWN.capability_set_hash()


# Rules for boundaries


def test_a_blocked_operation_is_refused(studio: Studio) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="dr*", action="block"),))
    made = _same(studio, lambda: [_call("tool.call", "drop"), _call("tool.call", "add")], policy)
    assert (made[0][0], made[1]) == (CapabilityDenied, 1)


def test_a_passed_call_is_made_every_time_and_never_recorded(studio: Studio) -> None:
    rule = BoundaryRule(operation="passed", action="pass")
    policy = Policy(id="p", boundaries=(rule,), allow_passthrough=True)

    async def alive() -> int:
        return studio.answer()

    def body() -> Any:
        session = _session()
        passed = [
            session.call("passed", {}, studio.answer),
            *session.stream("passed", {}, lambda: iter([studio.answer()])),
            asyncio.run(session.aio.call("passed", {}, alive)),
        ]
        return passed, studio.get(1), [studio.get(2)]

    with studio.session(mode="record", policy=policy):
        recorded = body()
    with studio.session(mode="replay", strict=True, policy=policy) as session:
        replayed = body()
    assert recorded[0] == [1, 2, 3]
    assert replayed[0] == [6, 7, 8]
    assert replayed[1:] == recorded[1:]
    assert len(studio.events()) == 2
    assert session.report().to_json()["counts"]["passed"] == {
        "net.stream passed": 1,
        "tool.call passed": 2,
    }


def test_passing_out_of_the_machine_has_to_be_allowed(studio: Studio) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="op", action="pass"),))
    assert _same(studio, lambda: _call("tool.call"), policy)[0] is PolicyRefused


def test_clock_and_chance_may_pass(studio: Studio) -> None:
    policy = Policy(id="p", clock="pass", rng="pass")

    def body() -> Any:
        session = _session()
        return [
            session.call("now", {}, studio.answer, capability="time.now"),
            session.call("draw", {}, studio.answer, capability="random"),
        ]

    assert studio.record(body, policy=policy) == [1, 2]
    with studio.session(mode="replay", strict=True, policy=policy):
        assert body() == [3, 4]
    assert studio.events() == []


def test_a_tool_is_stubbed_unless_it_is_to_run_again(studio: Studio) -> None:
    again = Policy(id="p", boundaries=(BoundaryRule(operation="again", action="re-execute"),))
    runs: list[str] = []

    def tool(name: str) -> Any:
        def inside() -> Any:
            runs.append(name)
            return [studio.get(1), studio.get(name)]

        return _session().call(name, {}, inside)

    def body() -> Any:
        return [tool("stub"), tool("again"), studio.get(2)]

    made = studio.record(body, policy=again)
    assert studio.replay(body, policy=again) == made
    assert runs == ["stub", "again", "again"]


def test_a_tool_that_runs_again_and_gives_something_else_diverges(studio: Studio) -> None:
    again = Policy(id="p", boundaries=(BoundaryRule(operation="tool", action="re-execute"),))
    results = iter([{"a": 1, "b": 1}, {"a": 1, "b": 2}])

    def body() -> Any:
        return _session().call("tool", {}, lambda: next(results))

    studio.record(body, policy=again)
    with pytest.raises(DivergenceError) as caught:
        studio.replay(body, policy=again)
    assert [gap["path"] for gap in caught.value.to_json()["paths"]] == ["$.result.b"]


def test_a_tool_that_fails_when_it_runs_again_diverges(studio: Studio) -> None:
    again = Policy(id="p", boundaries=(BoundaryRule(operation="tool", action="re-execute"),))
    tools = iter([lambda: 1, lambda: 1 // 0])

    def body() -> Any:
        return _session().call("tool", {}, next(tools))

    studio.record(body, policy=again)
    with pytest.raises(DivergenceError):
        studio.replay(body, policy=again)


# Net rules


def _fetch(url: str, method: str = "GET") -> Any:
    call = Call(
        type="nondeterministic",
        capability="net.fetch",
        operation=method,
        request={"url": url},
        source="network",
        method=method,
        url=url,
    )
    return outcome(lambda: _session().gateway.call(call, lambda: "page"))


def test_net_rules_hold_while_recording_and_in_a_replay(studio: Studio) -> None:
    net = NetRules(domains=("*.ok.example",), methods=("GET",))

    def body() -> Any:
        return [
            _fetch("https://a.ok.example/"),
            _fetch("https://bad.example/"),
            _fetch("https://ok.example/", "POST"),
        ]

    made = _same(studio, body, Policy(id="p", net=net))
    assert made[0] == "page"
    assert [one[0] for one in made[1:]] == [PolicyRefused] * 2


def test_net_rules_hold_for_what_was_recorded_without_them(studio: Studio) -> None:
    studio.record(lambda: _fetch("https://bad.example/"))
    strict = Policy(id="p", net=NetRules(domains=("ok.example",)))
    with studio.session(mode="replay", policy=strict, unused="allow"):
        assert _fetch("https://bad.example/")[0] is PolicyRefused


# Budgets


def test_a_request_and_a_key_have_a_budget(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(request_bytes=20))
    made = _same(studio, lambda: [outcome(studio.get, x) for x in ("a", "a" * 20)], policy)
    assert (made[0]["x"], made[1][0]) == ("a", BudgetExceeded)

    keys = Policy(id="p", budgets=Budgets(key_bytes=5))
    with studio.session("keys", mode="record", policy=keys) as session:
        session.record_nondeterministic("clock", "short", 1)
        with pytest.raises(BudgetExceeded, match="keyBytes"):
            session.record_nondeterministic("clock", "longer", 1)


def test_a_response_has_a_budget(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(response_bytes=30))

    def body() -> Any:
        seen: list[str] = []

        def read() -> None:
            seen.extend(studio.words(100))

        tool = outcome(lambda: _session().call("tool", {}, lambda: "x" * 40))
        return outcome(lambda: studio.get("x" * 40)), tool, outcome(read), seen, studio.get("a")

    made = _same(studio, body, policy)
    assert [one[0] for one in made[:3]] == [BudgetExceeded] * 3
    assert len(made[3]) == 5  # of six bytes each
    assert made[4]["x"] == "a"


def test_an_async_response_has_a_budget(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(response_bytes=30))

    async def read(seen: list[str]) -> None:
        async for word in studio.awords(100):
            seen.append(word)

    def body() -> Any:
        seen: list[str] = []
        stream = outcome(lambda: asyncio.run(read(seen)))
        return outcome(lambda: asyncio.run(studio.aget("x" * 40))), stream, seen

    made = _same(studio, body, policy)
    assert [one[0] for one in made[:2]] == [BudgetExceeded] * 2
    assert len(made[2]) == 5


def test_a_recording_has_a_budget_of_entries(studio: Studio) -> None:
    """Whatever is asked for when it is full is refused, and not even asked for."""
    policy = Policy(id="p", budgets=Budgets(entries=2))

    def body() -> Any:
        return [
            studio.get(1),
            _session().call("tool", {}, lambda: 2),
            outcome(lambda: studio.get(3)),
            outcome(lambda: list(studio.words(3))),
            outcome(lambda: _session().record_nondeterministic("clock", "now", 1)),
            outcome(lambda: asyncio.run(studio.aget(4))),
        ]

    made = _same(studio, body, policy)
    assert made[:2] == [{"x": 1, "n": 1}, 2]
    assert [one[0] for one in made[2:]] == [BudgetExceeded] * 4
    assert studio.asked == 1
    with studio.session(mode="replay", policy=policy, unused="allow"):
        pass  # it opens


def test_zero_entries_are_none(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(entries=0))
    made = _same(studio, lambda: outcome(lambda: studio.get(1)), policy)
    assert made[0] is BudgetExceeded


@pytest.mark.parametrize("place", ["tape", "capture"])
def test_a_recording_stays_within_its_budget_of_bytes(studio: Studio, place: str) -> None:
    budget = 40_000
    policy = Policy(id="p", budgets=Budgets(cassette_bytes=budget))
    where: dict[str, Any] = {place: studio.root / "recording"}

    def body() -> Any:
        made = [outcome(studio.get, "a" * size) for size in (10, 9_000, 9_000, 9_000, 10)]
        return [*made, outcome(lambda: _session().call("tool", {}, lambda: "y" * 100))]

    made = studio.record(body, policy=policy, **where)
    refused = [one for one in made if isinstance(one, tuple)]
    assert 3 <= len(refused) <= 4
    assert refused[0][0] is BudgetExceeded
    log = where[place] if place == "tape" else where[place] / "events.jsonl"
    assert log.stat().st_size <= budget
    assert studio.replay(body, policy=policy, **where) == made


def test_a_budget_of_bytes_in_which_no_recording_fits_is_refused_at_once(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(cassette_bytes=100))
    with pytest.raises(BudgetExceeded, match="cassetteBytes"):
        studio.record(lambda: pytest.fail("it does not open"), policy=policy)
    assert studio.everything() == {}


@pytest.mark.parametrize("mode", ["replay", "record_missing"])
@pytest.mark.parametrize("budgets", [Budgets(entries=4), Budgets(cassette_bytes=1_000)])
def test_a_recording_that_is_over_its_budgets_is_not_opened(
    studio: Studio, mode: str, budgets: Budgets
) -> None:
    studio.record(lambda: [studio.get(number) for number in range(5)])
    before = studio.everything()
    with pytest.raises(BudgetExceeded):
        studio.record(lambda: None, mode=mode, policy=Policy(id="p", budgets=budgets))
    assert studio.everything() == before


def test_deliveries_are_no_entries(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(entries=2))
    made = _same(studio, lambda: [list(studio.words(20)), studio.get(1)], policy)
    assert len(made[0]) == 20


def test_what_is_added_counts_with_what_was_there(studio: Studio) -> None:
    policy = Policy(id="p", budgets=Budgets(entries=3))
    made = studio.record(lambda: [studio.get(1), studio.get(2)], policy=policy)

    def body() -> Any:
        return [outcome(studio.get, number) for number in (1, 2, 3, 4)]

    again = studio.record(body, mode="record_missing", policy=policy)
    assert again[:2] == made
    assert again[2]["x"] == 3
    assert again[3][0] is BudgetExceeded
    assert studio.replay(body, policy=policy) == again


# Policies in files


def _project(studio: Studio, sanitizer: Any = None, *, said: Any = None, **entry: Any) -> None:
    """A project with the policy ``p``, which says what ``said`` says."""
    put_set(studio.root, {**POLICY, "id": "p", **(said or {})}, sanitizer, **entry)


def test_only_the_modes_of_the_index_may_be_used(studio: Studio) -> None:
    _project(studio, modes=["record", "replay"])
    made = studio.record(lambda: studio.get(1), policy="p")
    assert studio.replay(lambda: studio.get(1), policy="p") == made
    for mode in ("off", "record_missing", "rewrite"):
        with pytest.raises(PolicyRefused, match=f"the mode {mode}"):
            studio.session(mode=mode, policy="p")


def test_only_in_the_worlds_of_the_index(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    _project(studio, worlds=["ci"])
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(PolicyRefused, match="the world test"):
        studio.session(mode="record", policy="p")
    monkeypatch.setenv("CI", "1")
    assert studio.record(lambda: studio.get(1), policy="p")["x"] == 1
    monkeypatch.setenv("REENACT_WORLD", "production")
    with pytest.raises(PolicyRefused, match="the world production"):
        studio.session(mode="replay", policy="p")


def test_only_the_kinds_and_operations_of_the_index(studio: Studio) -> None:
    _project(studio, kinds=["network", "tool"], operations=["add", "Studio.*"])

    def body() -> Any:
        return [
            outcome(lambda: studio.get(1)),
            _call("tool.call", "add"),
            _call("tool.call", "drop"),
            _call("process.exec", "add"),
        ]

    made = studio.record(body, policy="p")
    assert made[0]["x"] == 1
    assert made[1] == 1
    assert [one[0] for one in made[2:]] == [PolicyRefused] * 2
    assert studio.replay(body, policy="p") == made


def test_a_policy_that_is_not_what_was_pinned_is_refused(studio: Studio) -> None:
    _project(studio)
    path = studio.root / ".reenact" / "policies" / "p.policy.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "mode": "off"}), "utf-8")
    with pytest.raises(PolicyInvalid, match="not what the index pins"):
        studio.session(policy="p")


def test_mode_strictness_and_the_rest_come_from_the_policy(studio: Studio) -> None:
    said = {"mode": "record", "strictness": "lenient", "unused": "allow"}
    _project(studio, said={**said, "match": "lookup", "durability": "event"})
    session = studio.session(policy="p")
    assert (session.mode, session.settings.strict) == ("record", False)
    assert session.settings.unused == "allow"
    assert session.settings.policy.match == "lookup"
    argued = studio.session(policy="p", mode="replay", strict=True, unused="warn", match="lane")
    assert (argued.mode, argued.settings.strict) == ("replay", True)
    assert argued.settings.unused == "warn"
    assert argued.settings.policy.match == "lane"


def test_the_sanitizer_of_the_policy_takes_secrets_out(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    sanitizer = {
        **SANITIZER,
        "secretNames": ["shoeSize"],
        "notSecretNames": ["password"],
        "declaredEnv": ["HOUSE_NAME"],
        "saltEnv": "SALT_OF_THE_TESTS",
    }
    _project(studio, sanitizer, said={"sanitizer": sanitizer["id"]})
    monkeypatch.setenv("HOUSE_NAME", "villa-rotonda-77")
    monkeypatch.setenv("SALT_OF_THE_TESTS", "pepper-and-salt")
    asked = {
        "shoeSize": "forty-six-and-a-half",
        "password": "open-for-all",
        "at": "villa-rotonda-77",
    }

    made = studio.record(lambda: studio.get(asked), policy="p")
    written = studio.path().read_text("utf-8")
    assert "forty-six" not in written
    assert "villa-rotonda" not in written
    assert "open-for-all" in written
    assert "***REDACTED:" in written  # a pseudonym
    monkeypatch.setenv("HOUSE_NAME", "villa-borghese-78")
    monkeypatch.delenv("SALT_OF_THE_TESTS")
    other = {**asked, "at": "villa-borghese-78", "shoeSize": "forty-one"}
    assert studio.replay(lambda: studio.get(other), policy="p")["n"] == made["n"]
