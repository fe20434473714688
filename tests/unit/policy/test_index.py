"""The index: pins, where policies may be used, the lint, and what is in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.cli.manage.policy import EffectiveSetting, describe
from reenact.errors import PolicyInvalid
from reenact.format.canonical import digest
from reenact.policy.files import Finding
from reenact.policy.index import (
    check_all,
    load_index,
    load_policy,
    named_worlds,
    pinned_index,
    starter,
)
from reenact.policy.model import DEFAULT, Pinned, Policy
from tests.unit.policy.sets import POLICY, SANITIZER, entry, put, put_index, put_set

OTHER = {**POLICY, "id": "other", "match": "lookup"}


def _errors(root: Path) -> list[tuple[str, str]]:
    return [(one.place, one.message) for one in check_all(root) if one.severity == "error"]


def _warnings(root: Path) -> list[Finding]:
    return [one for one in check_all(root) if one.severity == "warning"]


def test_without_any_policy_the_built_in_one_holds(tmp_path: Path) -> None:
    pinned = load_policy(tmp_path)
    assert pinned.policy is DEFAULT
    assert pinned == Pinned.of(DEFAULT)
    assert load_index(tmp_path) is None


def test_policy_is_loaded_with_what_the_index_allows(tmp_path: Path) -> None:
    put_set(
        tmp_path,
        {**OTHER, "sanitizer": "mine"},
        {**SANITIZER, "profile": "strict"},
        modes=["replay"],
        worlds=["ci"],
        kinds=["tool"],
        operations=["a*"],
    )
    pinned = load_policy(tmp_path, "other")
    assert pinned.policy.match == "lookup"
    assert pinned.digest == digest({**OTHER, "sanitizer": "mine"})
    assert pinned.sanitizer is not None
    assert pinned.sanitizer.profile == "strict"
    assert (pinned.modes, pinned.worlds) == (("replay",), ("ci",))
    assert (pinned.kinds, pinned.operations) == (("tool",), ("a*",))
    assert pinned.path == ".reenact/policies/other.policy.json"
    assert check_all(tmp_path) == []


def test_index_default_modes_hold_where_an_entry_says_none(tmp_path: Path) -> None:
    put(tmp_path, "policies/default.policy.json", POLICY)
    put(tmp_path, "policies/other.policy.json", OTHER)
    entries = entry(POLICY), entry(OTHER, modes=["record"])
    put_index(tmp_path, *entries, defaults={"modes": ["replay"]})
    assert load_policy(tmp_path).modes == ("replay",)
    assert load_policy(tmp_path, "other").modes == ("record",)


def test_built_in_default_stands_under_the_modes_of_the_index(tmp_path: Path) -> None:
    put(tmp_path, "policies/other.policy.json", OTHER)
    put_index(tmp_path, entry(OTHER), defaults={"modes": ["replay"]})
    pinned = load_policy(tmp_path)
    assert (pinned.policy, pinned.modes) == (DEFAULT, ("replay",))


def test_unknown_id_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    put_set(tmp_path, OTHER)
    with pytest.raises(PolicyInvalid, match="no policy othr") as found:
        load_policy(tmp_path, "othr")
    assert found.value.hint == "did you mean other?"
    with pytest.raises(PolicyInvalid, match="no policy other"):
        load_policy(tmp_path / "nothing-here", "other")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "x\n", "x" * 129, "ü"])
def test_id_that_cannot_be_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyInvalid, match="cannot be the id"):
        load_policy(tmp_path, name)


def test_changed_policy_is_refused_with_the_command_to_pin(tmp_path: Path) -> None:
    put_set(tmp_path, OTHER)
    put(tmp_path, "policies/other.policy.json", {**OTHER, "unused": "allow"})
    with pytest.raises(PolicyInvalid, match="not what the index pins") as found:
        load_policy(tmp_path, "other")
    assert "reenact policy pin other" in found.value.hint
    assert len(_errors(tmp_path)) == 1


def test_changed_sanitizer_is_refused_too(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "sanitizer": "mine"}, SANITIZER)
    put(tmp_path, "sanitizers/mine.sanitize.json", {**SANITIZER, "profile": "none"})
    with pytest.raises(PolicyInvalid, match="not what the index pins") as found:
        load_policy(tmp_path)
    assert "reenact policy pin default" in found.value.hint


def test_entry_without_a_digest_is_not_pinned_yet(tmp_path: Path) -> None:
    put(tmp_path, "policies/default.policy.json", POLICY)
    put_index(tmp_path, entry(POLICY, digest=""))
    with pytest.raises(PolicyInvalid, match="not pinned yet"):
        load_policy(tmp_path)


def test_deleting_the_index_does_not_free_the_policies(tmp_path: Path) -> None:
    put_set(tmp_path, POLICY)
    (tmp_path / ".reenact" / "index.json").unlink()
    with pytest.raises(PolicyInvalid, match=r"index\.json: there is no such file"):
        load_policy(tmp_path)


def test_folder_with_cassettes_alone_needs_no_index(tmp_path: Path) -> None:
    (tmp_path / ".reenact" / "cassettes").mkdir(parents=True)
    assert load_policy(tmp_path).policy is DEFAULT


def test_broken_index_is_refused_with_the_place(tmp_path: Path) -> None:
    put(tmp_path, "index.json", b'{"schemaVersion": "reenact.index@1", "polices": []}')
    with pytest.raises(PolicyInvalid) as found:
        load_policy(tmp_path)
    assert found.value.place == ".reenact/index.json $.polices"
    assert found.value.hint == "did you mean policies?"


def test_path_in_the_index_must_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(POLICY), "utf-8")
    put_index(tmp_path, entry(POLICY, path="../out.json"))
    with pytest.raises(PolicyInvalid, match="is refused"):
        load_policy(tmp_path)


@pytest.mark.parametrize("ids, message", [("ba", "a belongs before b"), ("aa", "a stands twice")])
def test_entries_are_sorted_and_unique(ids: str, message: str, tmp_path: Path) -> None:
    policies = [{**POLICY, "id": name} for name in ids]
    for policy in policies:
        put(tmp_path, f"policies/{policy['id']}.policy.json", policy)
    put_index(tmp_path, *map(entry, policies))
    assert _errors(tmp_path) == [(".reenact/index.json $.policies[1].id", message)]
    with pytest.raises(PolicyInvalid, match=message):
        load_policy(tmp_path, "a")


PASS = {"capability": "net.*", "action": "pass"}


@pytest.mark.parametrize(
    "policy, more, path, message",
    [
        ({**POLICY, "id": "x"}, {"id": "default"}, "$.id", "its id is x"),
        ({**POLICY, "sanitizer": "mine"}, {}, "$.sanitizer", "pins no sanitizer mine"),
        ({**POLICY, "mode": "record"}, {"modes": ["replay"]}, "$.mode", "not allow the mode"),
        ({**POLICY, "ignore": {"paths": ["$.a["]}}, {}, "$.ignore.paths[0]", "cannot read"),
        ({**POLICY, "boundaries": [PASS]}, {}, "$.boundaries[0].action", "out unrecorded"),
        (
            {**POLICY, "boundaries": [{"action": "pass"}]},
            {},
            "$.boundaries[0].action",
            "out unrecorded",
        ),
        (
            {**POLICY, "boundaries": [{**PASS, "capability": "db.query"}]},
            {},
            "$.boundaries[0].action",
            "out unrecorded",
        ),
    ],
)
def test_contradictions_are_errors_in_check_and_at_run_time(
    policy: dict[str, Any], more: dict[str, Any], path: str, message: str, tmp_path: Path
) -> None:
    put_set(tmp_path, policy, **more)
    (found,) = _errors(tmp_path)
    assert found[0].endswith(f" {path}")
    assert message in found[1]
    with pytest.raises(PolicyInvalid, match=message):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    "policy, sanitizer, message",
    [
        (POLICY, SANITIZER, "does not name"),
        ({**POLICY, "sanitizer": "yours"}, SANITIZER, "the policy names yours"),
        (
            {**POLICY, "sanitizer": "mine", "redaction": "none"},
            {**SANITIZER, "profile": "strict"},
            "the sanitizer has the profile strict",
        ),
    ],
)
def test_policy_and_sanitizer_must_agree(
    policy: dict[str, Any], sanitizer: dict[str, Any], message: str, tmp_path: Path
) -> None:
    put_set(tmp_path, policy, sanitizer)
    with pytest.raises(PolicyInvalid, match=message):
        load_policy(tmp_path)


def test_sanitizer_of_another_id_is_refused(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "sanitizer": "mine"}, SANITIZER)
    index = json.loads((tmp_path / ".reenact" / "index.json").read_bytes())
    index["policies"][0]["sanitizer"]["id"] = "yours"
    put(tmp_path, "index.json", index)
    assert (
        ".reenact/sanitizers/mine.sanitize.json $.id",
        "its id is mine, and yours in the index",
    ) in (_errors(tmp_path))


@pytest.mark.parametrize(
    "policy",
    [
        {**POLICY, "boundaries": [PASS], "allowPassthrough": True},
        {**POLICY, "boundaries": [{"capability": "time.now", "action": "pass"}]},
        {**POLICY, "boundaries": [{"capability": "fs.*", "action": "pass"}]},
    ],
)
def test_pass_is_fine_where_it_is_allowed_or_stays_inside(
    policy: dict[str, Any], tmp_path: Path
) -> None:
    put_set(tmp_path, policy)
    assert check_all(tmp_path) == []
    assert load_policy(tmp_path).policy.boundaries[0].action == "pass"


def test_a_secret_that_should_be_compared_is_a_warning(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "keyHeaders": ["x-tenant", "authorization"]})
    [found] = _warnings(tmp_path)
    assert found.place == ".reenact/policies/default.policy.json $.keyHeaders[1]"
    assert "cannot count" in found.message
    assert _errors(tmp_path) == []


def test_odd_names_are_warnings_that_stop_nobody(tmp_path: Path) -> None:
    policy = {
        **POLICY,
        "capabilities": {"net.fecth": {}, "llm.call": {}},
        "boundaries": [{"capability": "tool.cal", "action": "stub"}],
    }
    put_set(tmp_path, policy, worlds=["tst", "edge"])
    put(tmp_path, "policies/forgotten.policy.json", OTHER)
    found = {one.place: one.hint for one in _warnings(tmp_path)}
    assert found == {
        ".reenact/index.json $.policies[0].worlds[0]": "did you mean test?",
        ".reenact/policies/default.policy.json $.capabilities['net.fecth']": (
            "did you mean net.fetch?"
        ),
        ".reenact/policies/default.policy.json $.boundaries[0].capability": (
            "did you mean tool.call?"
        ),
        ".reenact/policies/forgotten.policy.json": "reenact policy pin forgotten",
    }
    assert _errors(tmp_path) == []
    assert load_policy(tmp_path).policy.id == "default"
    assert named_worlds(load_index(tmp_path)) == ("edge", "tst")


def test_check_names_every_mistake_in_every_file(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "sanitizer": "mine"}, SANITIZER)
    put(tmp_path, "policies/default.policy.json", {**POLICY, "a": 1, "mode": 2})
    put(tmp_path, "sanitizers/mine.sanitize.json", b"nonsense")
    assert [place.rpartition("/")[2] for place, _ in _errors(tmp_path)] == [
        "default.policy.json $.a",
        "default.policy.json $.mode",
        "mine.sanitize.json",
    ]


def test_check_without_files_says_how_to_begin(tmp_path: Path) -> None:
    (finding,) = check_all(tmp_path)
    assert finding.severity == "error"
    assert "policy init" in finding.hint


def test_starter_set_is_right(tmp_path: Path) -> None:
    for path, content in starter().items():
        put(tmp_path, path, content)
    assert check_all(tmp_path) == []
    pinned = load_policy(tmp_path)
    assert pinned.sanitizer is not None
    assert pinned.worlds == ("ci", "local", "test")


def test_pinning_makes_an_edited_set_right_again(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "sanitizer": "mine"}, SANITIZER)
    edited = {**POLICY, "sanitizer": "mine", "unused": "allow"}
    put(tmp_path, "policies/default.policy.json", edited)
    content, pins = pinned_index(tmp_path)
    assert [(pin.id, pin.before == pin.after) for pin in pins] == [
        ("default", False),
        ("mine", True),
    ]
    assert pins[0].after == digest(edited)
    assert content is not None
    put(tmp_path, "index.json", content)
    assert check_all(tmp_path) == []
    assert pinned_index(tmp_path) == (None, [*map(_settled, pins)])


def _settled(pin: Any) -> Any:
    return type(pin)(pin.id, pin.file, pin.after, pin.after)


def test_pinning_one_leaves_the_others_and_sorts(tmp_path: Path) -> None:
    put(tmp_path, "policies/default.policy.json", POLICY)
    put(tmp_path, "policies/other.policy.json", OTHER)
    put_index(tmp_path, entry(OTHER, digest=""), entry(POLICY, digest=""))
    content, pins = pinned_index(tmp_path, "other")
    assert [(pin.id, pin.before) for pin in pins] == [("other", "")]
    assert content is not None
    found = [(one["id"], bool(one["digest"])) for one in json.loads(content)["policies"]]
    assert found == [("default", False), ("other", True)]


def test_pinning_what_is_wrong_or_unknown_is_refused(tmp_path: Path) -> None:
    put_set(tmp_path, POLICY)
    with pytest.raises(PolicyInvalid) as found:
        pinned_index(tmp_path, "defalt")
    assert found.value.hint == "did you mean default?"
    put(tmp_path, "policies/default.policy.json", {**POLICY, "a": 1})
    with pytest.raises(PolicyInvalid, match="no such field"):
        pinned_index(tmp_path)


def _by_name(values: list[EffectiveSetting]) -> dict[str, tuple[Any, str]]:
    return {one.name: (one.value, one.origin) for one in values}


def test_every_value_says_where_it_came_from(tmp_path: Path) -> None:
    policy = {**POLICY, "match": "lane", "unused": "warn", "budgets": {"entries": 0}}
    put_set(
        tmp_path, {**policy, "sanitizer": "mine"}, {**SANITIZER, "secretNames": ["pin"]}, worlds=[]
    )
    found = _by_name(
        describe(
            load_policy(tmp_path),
            flags={"mode": "record"},
            arguments={"mode": "off", "unused": "allow", "strictness": None},
            defaults={"strictness": "strict", "redaction": "strict"},
        )
    )
    assert found["mode"] == ("record", "flag")
    assert found["unused"] == ("allow", "argument")
    assert found["match"] == ("lane", "policy")
    assert found["budgets.entries"] == (0, "policy")
    assert found["budgets.keyBytes"] == (None, "default")
    assert found["strictness"] == ("strict", "default")
    assert found["redaction"] == ("default", "sanitizer")
    assert found["sanitizer.secretNames"] == (["pin"], "sanitizer")
    assert found["worlds"] == ([], "index")
    assert found["modes"] == (None, "default")
    assert found["durability"] == ("interval", "default")
    assert found["capabilities"] == ("built-in", "default")


def test_policy_made_in_code_counts_as_policy_where_it_differs() -> None:
    found = _by_name(describe(Pinned.of(Policy(id="x", match="lookup"))))
    assert found["match"] == ("lookup", "policy")
    assert found["mode"] == ("replay", "default")
    assert found["clock"] == ("record", "default")
