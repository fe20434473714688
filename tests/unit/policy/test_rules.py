"""What a policy says, and everything that is wrong with one that says it badly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from reenact.format.canonical import digest
from reenact.policy.files import problems, read
from reenact.policy.index import starter
from reenact.policy.model import (
    DEFAULT,
    BoundaryRule,
    CapabilityRule,
    Pinned,
    Policy,
    Sanitizer,
    stays_inside,
)
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.schema import FILES, schemas
from tests.unit.policy.sets import POLICY, SANITIZER

INDEX: dict[str, Any] = {"schemaVersion": "reenact.index@1", "policies": []}
ENTRY = {"id": "default", "path": "policies/default.policy.json"}
TESTS: dict[str, Any] = {"schema_version": "reenact.tests@1", "tests": []}
TEST = {"id": "rr/smoke", "entry": "app.tests:Smoke.run"}
FULL = {
    **POLICY,
    "mode": "record_missing",
    "match": "lookup",
    "strictness": "lenient",
    "unused": "warn",
    "ignore": {"paths": ["$.id"], "headers": ["X-Trace"], "query": ["nonce"]},
    "volatile": ["uuids", "timestamps"],
    "keyHeaders": ["accept"],
    "budgets": {"cassetteBytes": 0, "entries": 1, "requestBytes": 2, "keyBytes": None},
    "redaction": "strict",
    "capabilities": {"net.fetch": {"calls": 3}, "db.query": {"allow": False}},
    "net": {"domains": ["*.example.com", "[::1]"], "methods": ["GET"], "timeoutMs": 1},
    "boundaries": [{"capability": "tool.*", "action": "re-execute"}],
    "clock": "pass",
    "durability": "event",
    "allowPassthrough": True,
}

GOOD = [
    ("policy", POLICY),
    ("policy", FULL),
    ("sanitizer", SANITIZER),
    ("sanitizer", {**SANITIZER, "declaredEnv": ["A_B"], "saltEnv": None, "profile": "none"}),
    ("index", INDEX),
    ("index", {**INDEX, "policies": [{**ENTRY, "modes": ["replay"], "kinds": ["network"]}]}),
    ("index", {**INDEX, "defaults": {"modes": []}}),
    ("tests", TESTS),
    ("tests", {**TESTS, "tests": [TEST, {**TEST, "expect": "fail", "raises": "a.B"}]}),
    ("tests", {**TESTS, "tests": [{**TEST, "cassette": "x", "policy": "p", "mode": "replay"}]}),
    ("tests", {**TESTS, "tests": [{**TEST, "world": "ci", "fixture_root": "fixtures/a"}]}),
]
BAD = [
    ("policy", [], "$"),
    ("policy", {"schemaVersion": "reenact.policy@1"}, "$"),
    ("policy", {**POLICY, "matchs": "lane"}, "$.matchs"),
    ("policy", {**POLICY, "id": ""}, "$.id"),
    ("policy", {**POLICY, "id": "-x"}, "$.id"),
    ("policy", {**POLICY, "id": "x\n"}, "$.id"),
    ("policy", {**POLICY, "id": "x" * 129}, "$.id"),
    ("policy", {**POLICY, "mode": "recrod"}, "$.mode"),
    ("policy", {**POLICY, "match": None}, "$.match"),
    ("policy", {**POLICY, "budgets": {"entries": -1}}, "$.budgets.entries"),
    ("policy", {**POLICY, "budgets": {"entries": True}}, "$.budgets.entries"),
    ("policy", {**POLICY, "budgets": {"entries": "5"}}, "$.budgets.entries"),
    ("policy", {**POLICY, "budgets": {"entries": 1.5}}, "$.budgets.entries"),
    ("policy", {**POLICY, "budgets": {"entries": 2**53 + 1}}, "$.budgets.entries"),
    ("policy", {**POLICY, "budgets": None}, "$.budgets"),
    ("policy", {**POLICY, "ignore": {"paths": "$.a"}}, "$.ignore.paths"),
    ("policy", {**POLICY, "ignore": {"paths": ["$.a", "b"]}}, "$.ignore.paths[1]"),
    ("policy", {**POLICY, "ignore": {"headers": ["a b"]}}, "$.ignore.headers[0]"),
    ("policy", {**POLICY, "volatile": ["dates"]}, "$.volatile[0]"),
    ("policy", {**POLICY, "capabilities": []}, "$.capabilities"),
    ("policy", {**POLICY, "capabilities": {"Net": {}}}, "$.capabilities.Net"),
    ("policy", {**POLICY, "capabilities": {"net.x": {"call": 1}}}, "$.capabilities['net.x'].call"),
    ("policy", {**POLICY, "net": {"domains": ["https://a.com"]}}, "$.net.domains[0]"),
    ("policy", {**POLICY, "net": {"domains": ["a.com:80"]}}, "$.net.domains[0]"),
    ("policy", {**POLICY, "net": {"domains": ["*"]}}, "$.net.domains[0]"),
    ("policy", {**POLICY, "net": {"methods": ["get"]}}, "$.net.methods[0]"),
    ("policy", {**POLICY, "net": {"timeoutMs": 0}}, "$.net.timeoutMs"),
    ("policy", {**POLICY, "net": {"redirects": 1}}, "$.net.redirects"),
    ("policy", {**POLICY, "boundaries": [{"capability": "x"}]}, "$.boundaries[0]"),
    ("policy", {**POLICY, "boundaries": [{"action": "skip"}]}, "$.boundaries[0].action"),
    ("policy", {**POLICY, "sanitizer": "../x"}, "$.sanitizer"),
    ("sanitizer", {**SANITIZER, "profile": "all"}, "$.profile"),
    ("sanitizer", {**SANITIZER, "salt": "x"}, "$.salt"),
    ("sanitizer", {**SANITIZER, "saltEnv": "a-b"}, "$.saltEnv"),
    ("sanitizer", {**SANITIZER, "secretNames": [""]}, "$.secretNames[0]"),
    ("index", {"schemaVersion": "reenact.index@1"}, "$"),
    ("index", {**INDEX, "policies": [{"id": "a"}]}, "$.policies[0]"),
    ("index", {**INDEX, "policies": [{**ENTRY, "digest": "sha1:0"}]}, "$.policies[0].digest"),
    ("index", {**INDEX, "policies": [{**ENTRY, "modes": ["on"]}]}, "$.policies[0].modes[0]"),
    ("index", {**INDEX, "policies": [{**ENTRY, "worlds": [""]}]}, "$.policies[0].worlds[0]"),
    ("index", {**INDEX, "policies": [{**ENTRY, "sanitizer": {}}]}, "$.policies[0].sanitizer"),
    ("tests", {"schema_version": "reenact.tests@1"}, "$"),
    ("tests", {**TESTS, "test": []}, "$.test"),
    ("tests", {**TESTS, "tests": [{"id": "a"}]}, "$.tests[0]"),
    ("tests", {**TESTS, "tests": [{**TEST, "entry": "app.smoke"}]}, "$.tests[0].entry"),
    ("tests", {**TESTS, "tests": [{**TEST, "entry": "app:"}]}, "$.tests[0].entry"),
    ("tests", {**TESTS, "tests": [{**TEST, "id": "/a"}]}, "$.tests[0].id"),
    ("tests", {**TESTS, "tests": [{**TEST, "expect": "error"}]}, "$.tests[0].expect"),
    ("tests", {**TESTS, "tests": [{**TEST, "fixture_root": ""}]}, "$.tests[0].fixture_root"),
    ("tests", {**TESTS, "tests": [{**TEST, "fixtureRoot": "f"}]}, "$.tests[0].fixtureRoot"),
    ("tests", {**TESTS, "tests": [{**TEST, "raises": "Key Error"}]}, "$.tests[0].raises"),
    ("tests", {**TESTS, "tests": [{**TEST, "mode": "on"}]}, "$.tests[0].mode"),
    ("tests", {**TESTS, "tests": {"a": TEST}}, "$.tests"),
]


def _validator(name: str) -> Any:
    schema = json.loads(schemas()[f"{name}.schema.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name, raw", GOOD)
def test_reader_and_schema_accept(name: str, raw: Any) -> None:
    assert problems(raw, FILES[name][0]) == []
    assert list(_validator(name).iter_errors(raw)) == []
    assert read(raw, FILES[name][0]) == msgspec.json.decode(json.dumps(raw), type=FILES[name][0])


@pytest.mark.parametrize("name, raw, path", BAD)
def test_reader_and_schema_and_msgspec_refuse(name: str, raw: Any, path: str) -> None:
    assert path in [one.path for one in problems(raw, FILES[name][0])]
    assert not _validator(name).is_valid(raw)
    with pytest.raises(msgspec.ValidationError):
        read(raw, FILES[name][0])


def test_schemas_in_the_package_are_current() -> None:
    folder = Path(__file__).parents[3] / "src" / "reenact" / "policy" / "schemas"
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == schemas()


def test_schemas_say_what_every_field_is_for() -> None:
    for text in schemas().values():
        whole = json.loads(text)
        for part in (whole, *whole.get("$defs", {}).values()):
            assert part["title"]
            assert part["description"]
            assert [
                name for name, one in part["properties"].items() if not one["description"]
            ] == []


def test_what_init_writes_is_right_by_schema_and_reader() -> None:
    for path, content in starter().items():
        name = {"policies": "policy", "sanitizers": "sanitizer"}.get(
            path.partition("/")[0], "index"
        )
        raw = json.loads(content)
        assert list(_validator(name).iter_errors(raw)) == []
        assert problems(raw, FILES[name][0]) == []


def test_every_mistake_is_found_at_once_with_the_nearest_name() -> None:
    raw = {**POLICY, "clok": "pass", "mode": "recrod", "budgets": {"entrys": 1, "keyBytes": -1}}
    assert {one.path: (one.message, one.hint) for one in problems(raw, Policy)} == {
        "$.clok": ("there is no such field", "did you mean clock?"),
        "$.mode": ("'recrod' is not a choice here", "did you mean record?"),
        "$.budgets.entrys": ("there is no such field", "did you mean entries?"),
        "$.budgets.keyBytes": ("expected a whole number, 0 or more, found a number", ""),
    }


def test_message_does_not_repeat_what_may_be_a_secret() -> None:
    raw = {**SANITIZER, "saltEnv": "hunter-2!", "id": "p@ssword", "profile": 7}
    text = " ".join(one.message + one.hint for one in problems(raw, Sanitizer))
    assert "hunter" not in text
    assert "p@ss" not in text
    assert "an id: letters" in text


def test_first_rule_that_fits_decides() -> None:
    policy = Policy(
        id="x",
        boundaries=(
            BoundaryRule(capability="tool.*", operation="pay*", action="block"),
            BoundaryRule(capability="tool.*", action="stub"),
            BoundaryRule(capability="time.now", operation="sleep", action="record"),
        ),
        clock="pass",
        rng="pass",
    )
    assert policy.action_for("tool.call", "pay_bill") == "block"
    assert policy.action_for("tool.call", "Pay_bill") == "stub"
    assert policy.action_for("net.fetch", "pay") == "record"
    assert policy.action_for("time.now", "time") == "pass"
    assert policy.action_for("time.now", "sleep") == "record"
    assert policy.action_for("random", "uuid4") == "pass"
    assert DEFAULT.action_for("time.now", "time") == DEFAULT.action_for("random", "x") == "record"


def test_only_what_stays_on_the_machine_stays_inside() -> None:
    assert stays_inside("time.now")
    assert stays_inside("fs.read")
    assert not any(map(stays_inside, ("net.fetch", "tool.call", "process.exec", "db.query")))


def test_policy_is_frozen_and_zero_is_a_limit() -> None:
    assert CapabilityRule(calls=0).calls == 0
    with pytest.raises(AttributeError):
        DEFAULT.id = "other"  # type: ignore[misc]


def test_digest_of_a_policy_made_in_code_is_that_of_its_shortest_file() -> None:
    policy = Policy(id="x", match="lookup")
    short = {"schemaVersion": "reenact.policy@1", "id": "x", "match": "lookup"}
    assert policy.to_json() == short
    assert Pinned.of(policy).digest == digest(short)
    assert read(policy.to_json(), Policy) == policy


def test_sanitizer_looks_names_up_and_builds_a_redactor() -> None:
    sanitizer = Sanitizer(
        id="mine",
        secret_names=("pin",),
        declared_env=("CUSTOMER", "NOT_SET"),
        salt_env="SALT",
    )
    given = sanitizer.arguments({"CUSTOMER": "ACME Ltd", "SALT": "pepper"})
    assert given["declared"] == ("ACME Ltd",)
    assert given["salt"] == b"pepper"
    value = Redactor(**given).redact({"pin": "1234", "to": "mail ACME Ltd"}).value
    assert "1234" not in str(value)
    assert "ACME" not in str(value)


def test_without_its_salt_a_sanitizer_gives_the_constant_placeholder() -> None:
    given = Sanitizer(id="mine", salt_env="SALT").arguments({})
    assert given["salt"] is None
    assert Redactor(**given).redact({"password": "abcdefgh"}).value == {
        "password": "***REDACTED***"
    }
