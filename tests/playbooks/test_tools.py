"""Tools: a stubbed one answers for everything inside, a re-executed one is asked again."""

from __future__ import annotations

import pytest

from reenact.policy.model import BoundaryRule, Policy
from reenact.testing import Playbook

NESTED = """
    0      tool outer {}            inside 0.1
    0.1    network get {"x": 1}     = "a"
    0.1    tool inner {}            inside 0.1.1
    0.1.1  clock now                = 1.5
    0.1.1  network get {"x": 1}     = "b"
    0.1.2  network get {"x": 1}     = "c"
    0.1    tool inner               = 2
    0.10   network get {"x": 1}     = "a neighbour with a longer name"
    0      tool outer               = 1
    0      network get {"x": 1}     = "d"
"""
AGAIN = Policy(id="p", boundaries=(BoundaryRule(operation="outer", action="re-execute"),))


def test_a_stubbed_tool_answers_for_everything_inside_it() -> None:
    Playbook(NESTED).check("""
        0     tool outer {}         -> serve 1
        head                        -> 8
        unused                      -> 10 8
        0     network get {"x": 1}  -> serve 10
        0.10  network get {"x": 1}  -> serve 8
        head                        -> nothing
        unused                      -> nothing
    """)


@pytest.mark.parametrize("match", ["lane", "transcript", "lookup"])
def test_the_inside_of_a_stubbed_tool_is_gone_however_calls_are_found(match: str) -> None:
    recorded = """
        0      tool outer {}            inside 0.1
        0.1    network get {"x": 1}     = "inside"
        0.1.1  network get {"x": 1}     = "deep inside"
        0      tool outer               = 1
        0      network get {"x": 1}     = "outside"
    """
    policy = Policy(id="p", match=match)  # type: ignore[arg-type]
    Playbook(recorded, policy=policy).check("""
        0  tool outer {}         -> serve 1
        0  network get {"x": 1}  -> serve 5
        unused                   -> nothing
    """)


def test_events_inside_that_come_late_in_the_log_are_gone_too() -> None:
    Playbook("""
        0    tool outer {}         inside 0.1
        0    tool outer            = 1
        0.1  network get {"x": 1}  = "a task that outlived its tool"
        0    network get {"x": 1}  = "outside"
    """).check("""
        0  tool outer {}         -> serve 1
        0  network get {"x": 1}  -> serve 4
        head                     -> nothing
        unused                   -> nothing
    """)


def test_a_re_executed_tool_has_its_inside_asked_for_again() -> None:
    Playbook(NESTED, policy=AGAIN).check("""
        0      tool outer {}         -> re-execute 1
        0.1    network get {"x": 1}  -> serve 2
        0.1    tool inner {}         -> serve 3
        0.1.2  network get {"x": 1}  -> serve 6
        0      network get {"x": 1}  -> serve 10
        unused                       -> 8
    """)


def test_a_re_executed_tool_that_asks_for_something_else_diverges_inside() -> None:
    Playbook(NESTED, policy=AGAIN).check("""
        0    tool outer {}         -> re-execute 1
        0.1  network get {"x": 2}  -> refuse event_payload_mismatch 2 $.request.x
    """)


def test_re_execute_is_for_tools_alone() -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(action="re-execute"),))
    Playbook('0  network get {"x": 1}  = 1', policy=policy).check("""
        0  network get {"x": 1}  -> serve 1
    """)


def test_two_calls_of_one_tool_have_two_insides() -> None:
    Playbook("""
        0    tool t {}              inside 0.1
        0    tool t {}              inside 0.2
        0.2  network get {"x": 1}   = "second's"
        0.1  network get {"x": 1}   = "first's"
        0    tool t                 = 1
        0    tool t                 = 2
    """).check("""
        0    tool t {}              -> serve 1
        head                        -> 3
        0.2  network get {"x": 1}   -> serve 3
        0    tool t {}              -> serve 2
        unused                      -> nothing
    """)


def test_the_whole_order_is_that_of_the_completing_events() -> None:
    book = Playbook("""
        0    tool t {}              inside 0.1
        0    llm acme/m1 {}
        0    network get {"x": 1}   = 1
        0    llm acme/m1            = "hi"
        0    clock now              = 1.5
        0    network slow {}        cancelled
        0    tool t                 = 2
        0    schedule timer:0
    """)
    order = book.script.order if book.script else None
    assert order is not None
    seen = []
    while (head := order.head()) is not None:
        seen.append(head.token)
        order.drop(head.token)
    assert seen == [3, 4, 7, ("0", "timer:0")]
