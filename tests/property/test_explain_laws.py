"""Laws of explaining: whatever it is given, it explains; and what it says settles a call does."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.cli.inspect.explain import Printer
from reenact.diff.terminal_text import escape_controls
from reenact.engine.request import request_of
from reenact.policy.matching import Rules
from reenact.views.explain.explanation import explain, read_divergences
from tests.property.values import VALUES
from tests.unit.engine.recorded import Desk, event

TEXTS = st.sampled_from(
    [
        "a, b",
        "b, a",
        "a  b",
        "at 2026-11-16T09:12:44Z",
        "at 2026-11-17T09:12:44Z",
        "6f1c1f9e-98a2-4c6e-8b4e-0c8b9a7d1e10",
        "a1c9d8e7-12b3-4c5d-9e8f-77aa66bb55cc",
        "/tmp/tmpab12/x",
        "on Monday",
        "0.30000000000000004",
        '{"a": 1}',
    ]
)
NAMES = st.sampled_from(
    ["messages", "tools", "model", "id", "ts", "headers", "url", "content", "a"]
)
NEAR = st.recursive(
    st.one_of(TEXTS, st.integers(0, 3), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
BODIES = st.one_of(NEAR, VALUES)
KINDS = st.sampled_from(["llm", "http", "tool"])


def _data(kind: str, body: Any) -> tuple[str, dict[str, Any]]:
    request = {"method": "POST", "url": "https://api.example/v1", "type": "json", "body": body}
    if kind == "llm":
        return "llm_request", {"provider": "x", "model": "m", "lens": "l", "request": request}
    if kind == "http":
        return "nondeterministic", {"source": "network", "op": "POST", "request": request}
    return "tool_call", {"name": "search", "args": body, "callId": "c"}


@given(KINDS, BODIES, BODIES)
def test_anything_is_explained_and_what_settles_it_does(kind: str, one: Any, other: Any) -> None:
    desk = Desk(profile="none")
    type, recorded = _data(kind, one)
    _, asked = _data(kind, other)
    wanted = request_of(type, asked)
    ask = desk.ask(type, wanted)
    divergence = desk.diagnosis.payload_mismatch(event(3, type, recorded), ask, ())
    (told,) = read_divergences(json.loads(json.dumps(divergence.to_json())))
    found = explain(told, None, None)
    out = io.StringIO()
    Printer(60, out).print(found)
    assert all(escape_controls(line) == line for line in out.getvalue().split("\n"))
    if found.settle is not None and found.settle.policy is not None:
        ignore = found.settle.policy.get("ignore", {})
        rules = Rules(
            ignore_paths=tuple(ignore.get("paths", ())),
            ignore_headers=tuple(ignore.get("headers", ())),
            volatile=tuple(found.settle.policy.get("volatile", ())),
        )
        under = Desk(rules, profile="none").comparer
        assert under.key(request_of(type, recorded)) == under.key(wanted)
