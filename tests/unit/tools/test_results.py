"""What is left out when results are compared, and who may go unrecorded."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.engine.call import Call
from reenact.engine.codecs import has_path, same_result
from reenact.format.content_hash import without_volatile
from reenact.policy.access import Access
from reenact.policy.matching import Comparer, Rules
from reenact.policy.model import Pinned, Policy
from reenact.policy.redaction.redactor import Redactor

COMPARER = Comparer(Rules(), Redactor("default"))


def _call(*volatile: str) -> Call:
    return Call(
        type="tool_call", capability="tool.call", operation="t", request={}, volatile=volatile
    )


@pytest.mark.parametrize(
    "now, volatile, same",
    [
        ({"a": 1, "t": 5}, (), True),
        ({"a": 1, "t": 6}, (), False),
        ({"a": 1, "t": 6}, ("$.result.t",), True),
        ({"a": 2, "t": 6}, ("$.result.t",), False),
        ({"a": 1, "t": 6}, ("$.result.no", "$.other[0].t", "$.result.t"), True),
        ({"a": 1}, ("$.result.t",), False),
    ],
)
def test_a_result_is_the_same_but_for_volatile_places(
    now: Any, volatile: tuple[str, ...], same: bool
) -> None:
    recorded = {"ok": True, "result": {"a": 1, "t": 5}, "callId": "c"}
    fields = {"ok": True, "result": now}
    assert same_result(COMPARER, _call(*volatile), fields, recorded) is same
    assert fields["result"] == now, "what is compared is not changed"


@pytest.mark.parametrize(
    "path, there", [("$.a.b", True), ("$.a.no", False), ("$.a.none", False), ("$.a[0]", False)]
)
def test_what_is_there(path: str, there: bool) -> None:
    assert has_path({"a": {"b": 1, "none": None}}, path) is there


def test_settled_is_a_copy() -> None:
    data = {"a": [{"t": 1}, {"t": 2}]}
    assert without_volatile(data, ["$.a[1].t"]) == {"a": [{"t": 1}, {"t": None}]}
    assert data == {"a": [{"t": 1}, {"t": 2}]}


@pytest.mark.parametrize(
    "capability, allowed, refused",
    [("tool.call", False, True), ("tool.call", True, False), ("time.now", False, False)],
)
def test_what_wants_to_go_unrecorded_is_asked(
    capability: str, allowed: bool, refused: bool
) -> None:
    access = Access(Pinned.of(Policy(id="p", allow_passthrough=allowed)))
    found = access.passing(capability, "mine")
    assert (found is not None) is refused
    if found is not None:
        assert str(found) == "mine itself would let tool.call mine out unrecorded"
        assert "allowPassthrough" in found.hint
