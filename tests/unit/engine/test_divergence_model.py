"""A divergence as a value, and its JSON form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reenact.engine.divergence.model import (
    CODES,
    MAX_BYTES,
    Divergence,
    Gap,
    Nearest,
    Recorded,
    Seen,
    divergence_schema,
)
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.errors import DivergenceError, UsageError
from reenact.policy.matching import Rules
from tests.property.values import VALUES
from tests.unit.engine.recorded import Desk, event, tool
from tests.unit.policy.secrets_for_tests import TOKENS

WHOLE = Divergence(
    code="event_payload_mismatch",
    detail="It differs.",
    lane="0.1",
    expected=Recorded(
        version=1,
        capture_id="cap_1",
        run_id="run_1",
        seq=7,
        ts=1_700_000_000_000,
        type="tool_call",
        lane="0.1",
        data={"a": 1},
        operation="f",
    ),
    observed=Seen(type="tool_call", operation="f", lane="0.1", data={"a": 2}, digest="sha256:x"),
    event_seq=7,
    paths=[Gap(path="$.a", normalised="$['a']", kind="changed", expected=1, observed=None)],
    more_paths=2,
    nearest=[Nearest(seq=9, lane="0", operation="f", score=0.5, paths=["$.a"], used=True)],
    hint="Do this.\nOr that.",
    flags=["ignored: $.id"],
    stack="File ...",
    served=9,
)
BARE = Divergence(code="event_missing", detail="It is gone.", lane="0")


def test_the_json_form_field_by_field() -> None:
    assert WHOLE.to_json() == {
        "version": 1,
        "code": "event_payload_mismatch",
        "detail": "It differs.",
        "lane": "0.1",
        "expected": {
            "type": "tool_call",
            "operation": "f",
            "lane": "0.1",
            "data": {"a": 1},
            "version": 1,
            "captureId": "cap_1",
            "runId": "run_1",
            "seq": 7,
            "ts": 1_700_000_000_000,
        },
        "observed": {
            "type": "tool_call",
            "operation": "f",
            "lane": "0.1",
            "data": {"a": 2},
            "digest": "sha256:x",
        },
        "eventSeq": 7,
        "jsonPath": "$['a']",
        "paths": [
            {
                "path": "$.a",
                "jsonPath": "$['a']",
                "kind": "changed",
                "expected": 1,
                "observed": None,
            }
        ],
        "morePaths": 2,
        "nearest": [
            {"seq": 9, "lane": "0", "operation": "f", "score": 0.5, "paths": ["$.a"], "used": True}
        ],
        "hint": "Do this.\nOr that.",
        "flags": ["ignored: $.id"],
        "stack": "File ...",
        "served": 9,
    }


def test_what_there_is_none_of_is_left_out() -> None:
    assert BARE.to_json() == {
        "version": 1,
        "code": "event_missing",
        "detail": "It is gone.",
        "lane": "0",
        "paths": [],
        "morePaths": 0,
        "nearest": [],
        "hint": "",
        "flags": [],
    }


@pytest.mark.parametrize("divergence", [WHOLE, BARE])
def test_from_json_is_the_inverse_and_ignores_what_it_does_not_know(divergence: Divergence) -> None:
    sent = json.loads(json.dumps({**divergence.to_json(), "new": 1}))
    assert Divergence.from_json(sent) == divergence


@pytest.mark.parametrize(
    "value, message",
    [
        ({**BARE.to_json(), "version": 2}, "its version is 2"),
        ({}, "its version is None"),
        ([], "its version is None"),
        ({**BARE.to_json(), "code": "other"}, "not a divergence: Invalid enum value 'other'"),
        ({"version": 1}, "not a divergence: Object missing required field"),
    ],
)
def test_something_else_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Divergence.from_json(value)
    assert caught.value.hint


def test_the_first_path_for_people() -> None:
    assert (WHOLE.json_path, BARE.json_path) == ("$.a", None)


def test_the_error_carries_it() -> None:
    error = DivergenceError(WHOLE, render_divergence(WHOLE))
    assert error.to_json() == WHOLE.to_json()
    assert str(error).startswith("divergence: event_payload_mismatch")
    assert error.hint == WHOLE.hint


def test_the_schema_names_every_field_and_nothing_else() -> None:
    schema = divergence_schema()
    assert set(schema["properties"]) == set(WHOLE.to_json())
    assert set(schema["required"]) == set(BARE.to_json())
    assert set(schema["properties"]["code"]["enum"]) == set(CODES)
    assert set(schema["$defs"]) == {"Recorded", "Seen", "Gap", "Nearest"}
    parts = {"Recorded": WHOLE.expected, "Seen": WHOLE.observed, "Gap": WHOLE.paths[0]}
    for name, part in parts.items():
        assert set(msgspec.to_builtins(part)) <= set(schema["$defs"][name]["properties"])


# Anything may be asked and recorded, and the form stays small

LONG = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["x" * 9_000, "\U0001f600" * 4_000, "\x00" * 5_000, "'\\" * 3_000]),
)
HUGE = st.one_of(
    LONG,
    VALUES,
    LONG.map(str.encode),
    st.just(10**4_000),
    st.lists(LONG, max_size=4).map(lambda items: items * 60),
    st.dictionaries(LONG, LONG, max_size=6),
    st.integers(1, 190).map(lambda depth: _deep(depth)),
    st.just({f"{number}" * 30: "\u2028" * 300 for number in range(200)}),
)


def _deep(depth: int) -> Any:
    value: Any = "x" * 5_000
    for _ in range(depth):
        value = {"k" * 300: [value]} if depth < 95 else [value]
    return value


def _all(loop_scheduler: Desk, recorded: Any, asked: Any, name: str) -> list[Divergence]:
    one, other = tool(1, name, recorded), tool(2, name, [recorded, asked], "0.1")
    ask = loop_scheduler.ask_tool(name, asked)
    about = loop_scheduler.diagnosis
    candidates = [(one, False), (other, True), (other, False)]
    return [
        about.type_mismatch(one, loop_scheduler.ask("run_end", {"output": asked}), candidates),
        about.payload_mismatch(one, ask, candidates),
        about.unexpected(ask, candidates, draws=False),
        about.missing(one, why=name),
        about.stalled(one, ask, stack="\n".join([name] * 3), why=name),
        about.cancelled(one, ask),
    ]


@given(HUGE, HUGE, LONG)
def test_never_more_than_64_kib_and_readable_again(recorded: Any, asked: Any, name: str) -> None:
    rules = Rules(ignore_paths=tuple(f"$.args['{'n' * number}']" for number in range(1, 40)))
    for divergence in _all(Desk(rules), recorded, asked, name):
        form = divergence.to_json()
        text = json.dumps(form)
        assert len(text) <= MAX_BYTES
        assert Divergence.from_json(json.loads(text)) == divergence
        shown = render_divergence(divergence).replace("\u00a0", "").replace("\u3000", "")
        assert all(line.isprintable() for line in shown.split("\n"))


EXACT = frozenset(
    f"shape.{name}"
    for name in "adobe artifactory-reference azure-client clickhouse dropbox-long gocardless infracost "
    "jwt-base64 lob mailchimp mailgun maxmind notion-legacy octopus square-oauth twilio".split()
)
"""Formats of a fixed length: inside a longer word they are not a token."""


@given(st.sampled_from(sorted(TOKENS)), st.sampled_from(["default", "strict"]))
def test_no_secret_comes_out_wherever_it_stood(kind: str, profile: Any) -> None:
    token = TOKENS[kind]
    glued = f"{token} x" if kind in EXACT else f"{token}x"
    loop_scheduler = Desk(Rules(ignore_paths=("$.args.x",)), profile)
    held = {"text": f"say {token}", token: [{"deep": token}], "bytes": token.encode()}
    other = {"text": "say it", glued: [f"a {token}"], "password": "hunter2hunter2"}
    for recorded, asked in ((held, other), (other, held)):
        for divergence in _all(loop_scheduler, recorded, asked, f"tool {token}"):
            shown = json.dumps(divergence.to_json()) + render_divergence(divergence)
            assert json.dumps(token)[1:-1] not in shown
            assert token[-12:] not in shown
            assert "hunter2hunter2" not in shown


def test_what_was_cut_says_so_and_has_a_digest() -> None:
    loop_scheduler = Desk()
    divergence = loop_scheduler.diagnosis.missing(
        tool(1, "f", {"text": "x" * 5_000}), why="it ended"
    )
    assert divergence.expected is not None
    assert divergence.expected.data["args"]["text"].endswith("x… (3,050 more characters)")
    assert divergence.expected.digest is not None
    whole = loop_scheduler.diagnosis.missing(tool(1, "f", {"text": "x"}), why="it ended")
    assert whole.expected is not None
    assert whole.expected.digest is None


def test_a_difference_far_inside_long_texts_is_shown() -> None:
    loop_scheduler = Desk()
    start = "a" * 90_000
    divergence = loop_scheduler.diagnosis.payload_mismatch(
        tool(1, "f", start + "OLD" + "b" * 9_000), loop_scheduler.ask_tool("f", start + "NEW"), ()
    )
    (gap,) = divergence.paths
    assert gap.expected.startswith("(89,800 characters) …aaa")
    assert "aOLDb" in gap.expected
    assert gap.observed.endswith("aNEW")


def test_bytes_are_shown_as_in_a_recording() -> None:
    loop_scheduler = Desk()
    asked = loop_scheduler.ask_tool("f", {"raw": b"\x00" * 5_000 + b"new"})
    divergence = loop_scheduler.diagnosis.payload_mismatch(
        tool(1, "f", {"raw": b"\x00" * 5_000 + b"old"}), asked, ()
    )
    (gap,) = divergence.paths
    assert (gap.observed["from"], gap.observed["size"]) == (4_800, 5_003)
    assert gap.observed["$bytes"].endswith("uZXc=")
    data = {"args": {"$bytes": "no bytes"}, "name": "f"}
    named = loop_scheduler.diagnosis.missing(event(1, "tool_call", data), why="it ended").expected
    assert named is not None
    assert named.data["args"] == {"$$bytes": "no bytes"}


@given(HUGE, HUGE)
def test_the_schema_holds_for_what_is_made(recorded: Any, asked: Any) -> None:
    validator = Draft202012Validator(divergence_schema())
    for divergence in (WHOLE, BARE, *_all(Desk(), recorded, asked, "f")):
        assert [error.message for error in validator.iter_errors(divergence.to_json())] == []


def test_the_schema_refuses_what_is_none() -> None:
    validator = Draft202012Validator(divergence_schema())
    form = WHOLE.to_json()
    for wrong in ({**form, "code": "other"}, {**form, "version": 2}, {**form, "paths": [{}]}, {}):
        assert not validator.is_valid(wrong)


def test_the_published_schema_is_current() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "divergence.schema.json"
    assert page.read_text(encoding="utf-8") == json.dumps(divergence_schema(), indent=2) + "\n"


def test_the_reference_names_every_field() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "divergence.md"
    text = page.read_text(encoding="utf-8")
    schema = divergence_schema()
    parts = [schema, *schema["$defs"].values()]
    named = {name for part in parts for name in part["properties"]}
    assert {name for name in named if f"`{name}`" not in text} == set()
