"""Where a conversation may be cut, and what becomes of it."""

from __future__ import annotations

import pytest

from reenact.agents.compaction import Decided, compacted, cut, read_decision, summary_request
from reenact.agents.messages import Message, ToolRequest
from reenact.errors import UsageError

ROLES = {"u": "user", "a": "assistant", "t": "tool"}


def talk(roles: str) -> list[Message]:
    return [Message(role=ROLES[one], text=f"{one}{n}") for n, one in enumerate(roles)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "roles,keep,kept",
    [
        ("uauau", 2, 2),
        ("uauau", 0, 0),
        ("uatau", 3, 4),  # a result stays with its call
        ("uattu", 2, 4),
        ("uattu", 3, 4),
        ("ua", 4, 1),  # fewer, or nothing would be left out
        ("uat", 1, 2),
        ("u", 4, 1),
        ("ut", 1, 2),
        ("", 1, 0),
    ],
)
def test_cut(roles: str, keep: int, kept: int) -> None:
    assert cut(talk(roles), keep) == kept


def test_what_is_left_follows_the_summary() -> None:
    texts = [one.text for one in compacted(talk("uau"), Decided(1, "long ago"))]
    assert texts == ["Summary of the conversation so far:\nlong ago", "u2"]
    assert len(compacted(talk("uau"), Decided(0, "x"))) == 1


def test_a_summary_is_asked_for_as_one_text() -> None:
    call = ToolRequest(id="c", name="add", arguments={"a": 1}, written='{"a":1}')
    messages = [
        Message(role="user", text="what?"),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", name="add", text="2" * 50),
    ]
    (asked,) = summary_request(messages, "i", {}, 10).messages
    assert asked.text.splitlines()[2:] == [
        "user: what?",
        'assistant: [calls add with {"a":1}]',
        "tool add: 2222222222",
    ]


def test_a_recorded_decision_is_read_with_care() -> None:
    assert read_decision({"keep": 99, "summary": "s"}, 3) == Decided(3, "s")
    assert read_decision({"keep": -1, "summary": "s"}, 3) == Decided(0, "s")
    with pytest.raises(UsageError, match="cannot be read"):
        read_decision({"keep": "x"}, 3)
