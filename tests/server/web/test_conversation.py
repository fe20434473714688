"""What an agent said to a model, call by call: what is told again is folded."""

from __future__ import annotations

import re
from typing import Any

from reenact.exchange.comparison.calls import Call
from reenact.server.web.exchanges.calls import CallDetails, conversations


def told(*said: dict[str, Any], model: str = "openai/small-1") -> CallDetails:
    call = Call(seq=1, type="llm", operation="POST https://a.example/chat")
    return CallDetails(call=call, began=0, ended=0, talk=[*said], model=model)


def said(role: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"role": role, **({"text": text} if text else {}), **more}


def shown(*found: CallDetails) -> list[tuple[str, list[str]]]:
    """Of each call: what its fold says, and the roles of what is not folded."""
    articles = []
    for html in map(str, conversations(found)):
        fold = re.search("<details.*?<summary>(.*?)</summary>.*</details>", html)
        rest = html.replace(fold[0], "") if fold else html
        roles = re.findall('<p class="role">(.*?)</p>', rest)
        articles.append((fold[1] if fold else "", roles))
    return articles


SYSTEM, USER = said("system", "You know tea."), said("user", "How?")
CALLS = said("answer", calls=[["stock", {"sku": "tea"}]], stopped="tool_calls", usage={"input": 3})
AGAIN = said("assistant", calls=[["stock", {"sku": "tea"}]])
RESULT, ANSWER = said("tool", results=[["stock", "4.50"]]), said("answer", "Slowly.")


def test_what_is_told_again_is_folded_with_the_answer_that_led_to_it() -> None:
    assert shown(told(SYSTEM, USER, CALLS), told(SYSTEM, USER, AGAIN, RESULT, ANSWER)) == [
        ("", ["system", "user", "answer"]),
        ("3 messages as above", ["tool", "answer"]),
    ]


def test_two_conversations_beside_each_other_are_told_apart() -> None:
    other = said("user", "Why?")
    assert shown(told(SYSTEM, USER, ANSWER), told(other, ANSWER), told(SYSTEM, other, ANSWER)) == [
        ("", ["system", "user", "answer"]),
        ("", ["user", "answer"]),
        ("1 message as above", ["user", "answer"]),
    ]


def test_many_long_conversations_do_not_take_long_each() -> None:
    """Every message is looked at once, not once for each call before it."""
    history = [said("user", f"message {number}") for number in range(300)]
    found = shown(*(told(*history[:number], ANSWER) for number in range(1, 301)))
    assert found[-1] == ("299 messages as above", ["user", "answer"])


def test_the_same_question_twice_has_two_answers() -> None:
    assert shown(told(USER, ANSWER), told(USER, ANSWER))[1] == ("1 message as above", ["answer"])


def test_an_answer_that_was_changed_is_shown() -> None:
    changed = said("assistant", "Quickly.")
    assert shown(told(USER, ANSWER), told(USER, changed, said("user", "So?"), ANSWER))[1] == (
        "1 message as above",
        ["assistant", "user", "answer"],
    )


def test_what_a_tool_gave_is_not_quoted_twice() -> None:
    result = said("tool", results=[["stock", '{"price": 4.5}'], ["", {"a": 1}]])
    [html] = map(str, conversations([told(result, ANSWER)]))
    assert '<b>stock gave</b> <code class="value">{&quot;price&quot;: 4.5}</code>' in html
    assert '<b>a tool gave</b> <code class="value">{&quot;a&quot;: 1}</code>' in html


def test_the_model_comes_first_and_the_address_behind_it() -> None:
    [html] = map(str, conversations([told(USER, ANSWER)]))
    assert re.search('<b>openai/<wbr>small-1</b> <span class="dim">POST', html)
    [plain] = map(str, conversations([told(USER, ANSWER, model="")]))
    assert "<b>POST" in plain
