"""Tools of every kind: recorded, stubbed, run again, and let through."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Policy, PolicyRefused, UsageError, ValueRefused
from reenact.policy.model import BoundaryRule
from reenact.testing import memory_session
from reenact.tools.tool import Tool, tool
from tests.unit.tools.stage import (
    AGAIN,
    KINDS,
    PASS,
    WORLD,
    again,
    ask,
    async_generator,
    coroutine,
    events,
    function,
    generator,
    record,
    replay,
)

kinds = pytest.mark.parametrize("kind", sorted(KINDS))


@kinds
def test_without_a_session_a_tool_is_the_function(kind: str) -> None:
    before = WORLD.number
    assert KINDS[kind]("x")[0] == before + 1


@kinds
def test_in_a_replay_a_tool_is_not_run(kind: str) -> None:
    made, source = record(lambda: [KINDS[kind]("x"), KINDS[kind]("x"), ask("after")])
    assert made[0] != made[1]
    assert replay(source, lambda: [KINDS[kind]("x"), KINDS[kind]("x"), ask("after")]) == made


@kinds
def test_run_again_it_is_served_what_it_asks_for(kind: str) -> None:
    made, source = record(lambda: [KINDS[kind]("x"), KINDS[kind]("x"), ask("after")])
    assert again(source, lambda: [KINDS[kind]("x"), KINDS[kind]("x"), ask("after")]) == made


@kinds
def test_let_through_it_runs_and_nothing_of_it_is_recorded(kind: str) -> None:
    _, source = record(lambda: [KINDS[kind]("x"), ask("after")], policy=PASS)
    assert [event.data["op"] for event in source if event.data.get("op")] == ["ask"]
    with memory_session(source, policy=PASS) as session:
        before = WORLD.number
        KINDS[kind]("x")
        assert WORLD.number > before
        ask("after")
    assert session.report().passed == {f"tool.call {kind}": 1}


@kinds
def test_it_is_let_through_only_where_the_policy_allows_that(kind: str) -> None:
    rule = BoundaryRule(capability="tool.call", action="pass")
    with memory_session(policy=Policy(id="p", boundaries=(rule,))), pytest.raises(PolicyRefused):
        KINDS[kind]("x")


@kinds
def test_other_arguments_are_a_divergence_at_their_place(kind: str) -> None:
    _, source = record(lambda: KINDS[kind]("x"))
    with pytest.raises(DivergenceError) as caught, memory_session(source):
        KINDS[kind]("y")
    assert caught.value.to_json()["code"] == "event_payload_mismatch"
    assert caught.value.to_json()["jsonPath"] == "$['args']['what']"


@kinds
def test_arguments_by_name_and_by_position_are_the_same(kind: str) -> None:
    tools: dict[str, Tool[..., Any]] = {
        "function": function,
        "coroutine": coroutine,
        "generator": generator,
        "async_generator": async_generator,
    }
    assert tools[kind].kind == kind
    _, source = record(lambda: KINDS[kind]("x"))
    (call,) = events(source, "tool_call")
    assert (call["name"], call["args"]) == (kind, {"what": "x"})


# What can be said of one tool


@tool(replay="re-execute")
def runs_again(what: str) -> int:
    RAN.append(what)
    return ask(what)


RAN: list[str] = []


def test_a_tool_can_say_itself_that_it_runs_again() -> None:
    made, source = record(lambda: [runs_again("a"), function("b")])
    before = len(RAN)
    assert replay(source, lambda: [runs_again("a"), function("b")]) == made
    assert RAN[before:] == ["a"]


def test_a_rule_of_the_policy_goes_before_what_a_tool_says() -> None:
    stub = Policy(id="p", boundaries=(BoundaryRule(capability="tool.call", action="stub"),))
    made, source = record(lambda: runs_again("a"))
    before = len(RAN)
    assert replay(source, lambda: runs_again("a"), policy=stub) == made
    assert RAN[before:] == []


@tool(replay="pass")
def slips_by(what: str) -> int:
    return ask(what)


def test_a_tool_that_wants_to_pass_needs_a_policy_that_allows_it() -> None:
    with memory_session(), pytest.raises(PolicyRefused, match="slips_by itself would let"):
        slips_by("x")
    allowing = Policy(id="p", allow_passthrough=True)
    _, source = record(lambda: slips_by("x"), policy=allowing)
    assert list(source) == []
    with memory_session(source, policy=allowing) as session:
        slips_by("x")
    assert session.report().passed == {"tool.call slips_by": 1}


def test_a_tool_says_what_it_cannot_do() -> None:
    with pytest.raises(UsageError, match="replay='sometimes'"):
        tool(function.function, replay="sometimes")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="a int cannot be a tool"):
        tool(3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="cannot read the path"):
        tool(function.function, volatile=("a b",))


@tool(volatile=("tookMs", "$.inner.at"))
def times(what: str) -> dict[str, Any]:
    return {"what": what, "tookMs": WORLD.next(), "inner": {"at": WORLD.next()}}


class Late(Exception):
    """Knows how late it is."""

    def __init__(self, details: dict[str, Any]) -> None:
        super().__init__("late")
        self.details = details


@tool(volatile=("tookMs",))
def fails_late(what: str) -> None:
    raise Late({"what": what, "tookMs": WORLD.next()})


def _times() -> Any:
    with pytest.raises(Late) as caught:
        fails_late("y")
    return times("x"), caught.value.details


def test_volatile_places_never_make_a_divergence() -> None:
    made, source = record(_times)
    with memory_session(source, policy=AGAIN) as session:
        assert _times() != made
    assert session.divergences() == []
    assert replay(source, _times) == made


def test_volatile_places_are_out_of_the_content_hash() -> None:
    one, two = record(_times)[1], record(_times)[1]
    assert [event.data for event in one] != [event.data for event in two]
    assert one.manifest().integrity.content_hash == two.manifest().integrity.content_hash


def test_what_else_differs_when_a_tool_runs_again_is_shown_at_its_place() -> None:
    @tool(volatile=("tookMs",))
    def unsteady() -> dict[str, int]:
        return {"tookMs": WORLD.next(), "n": WORLD.next()}

    _, source = record(unsteady)
    with pytest.raises(DivergenceError) as caught, memory_session(source, policy=AGAIN):
        unsteady()
    assert caught.value.to_json()["jsonPath"] == "$['result']['n']"
    assert "tookMs" not in str(caught.value.to_json()["detail"])


def test_a_rerun_that_keeps_to_a_recording_that_is_added_to_stays_as_it_was() -> None:
    _, source = record(_times)
    with memory_session(source, mode="record_missing", policy=AGAIN) as session:
        _times()
        function("new")
    assert events(session.recorded(), "tool_result")[:2] == events(source, "tool_result")


# Calls of a model


@pytest.mark.parametrize("given", ["call_1", "toolu_ü§\n", "0#0", " "])
def test_the_id_that_a_model_gave_is_kept_to_the_letter(given: str) -> None:
    made, source = record(lambda: function.call({"what": "x"}, call_id=given))
    assert [data["callId"] for data in events(source, "tool_call")] == [given]
    assert [data["callId"] for data in events(source, "tool_result")] == [given]
    assert replay(source, lambda: function.call({"what": "x"}, call_id="another")) == made


def test_calls_with_the_same_id_each_get_their_own_result() -> None:
    def body() -> list[Any]:
        return [function.call({"what": "x"}, call_id="same") for _ in range(3)]

    made, source = record(body)
    assert len({str(one) for one in made}) == 3
    assert replay(source, body) == made


@pytest.mark.parametrize("one", [function, coroutine, generator, async_generator], ids=repr)
def test_acall_gives_the_whole_result_of_any_tool(one: Tool[..., Any]) -> None:
    def body() -> Any:
        return asyncio.run(one.acall({"what": "x"}, call_id="c"))

    made, source = record(body)
    assert isinstance(made, list)
    assert replay(source, body) == made
    assert again(source, body) == made


def test_call_gives_what_calling_the_function_gives() -> None:
    async def body() -> list[Any]:
        return [await coroutine.call({"what": "x"}), list(generator.call({"what": "x"}))]

    made, source = record(lambda: asyncio.run(body()))
    assert [len(one) for one in made] == [2, 3]
    assert replay(source, lambda: asyncio.run(body())) == made


@pytest.mark.parametrize("args", [{"wat": 1}, {}, {"what": "x", "more": 1}])
def test_arguments_that_do_not_fit_are_a_failure_of_the_tool(args: dict[str, Any]) -> None:
    def body() -> str:
        with pytest.raises(TypeError) as caught:
            function.call(args)
        return str(caught.value)

    made, source = record(body)
    (result,) = events(source, "tool_result")
    assert (result["ok"], result["error"]["class"]) == (False, "builtins.TypeError")
    assert replay(source, body) == made


# Failures


class Odd(Exception):
    """With a constructor that wants more than a message."""

    def __init__(self, number: int, *, why: str) -> None:
        super().__init__(f"{number}: {why}")
        self.number = number


@tool
def breaks(how: str) -> Iterator[int]:
    yield 1
    raise Odd(7, why=how)


@tool
async def breaks_later(how: str) -> AsyncIterator[int]:
    yield 1
    raise Odd(7, why=how)


@tool
def fails(how: str) -> int:
    raise Odd(7, why=how)


@tool
async def fails_later(how: str) -> int:
    await asyncio.sleep(0)
    raise Odd(7, why=how)


def _iterated(seen: list[int]) -> None:
    for item in breaks("x"):
        seen.append(item)


async def _iterated_later(seen: list[int]) -> None:
    async for item in breaks_later("x"):
        seen.append(item)


_FAILURES = {
    "function": lambda seen: fails("x"),
    "coroutine": lambda seen: asyncio.run(fails_later("x")),
    "generator": _iterated,
    "async_generator": lambda seen: asyncio.run(_iterated_later(seen)),
}


@pytest.mark.parametrize("kind", sorted(_FAILURES))
def test_an_exception_comes_again_as_its_own_type(kind: str) -> None:
    def body() -> Any:
        seen: list[int] = []
        with pytest.raises(Odd) as caught:
            _FAILURES[kind](seen)
        return seen, str(caught.value), caught.value.number

    made, source = record(body)
    assert made[1:] == ("7: x", 7)
    assert events(source, "tool_result")[0]["ok"] is False
    assert replay(source, body) == made
    assert again(source, body) == made


def test_another_exception_when_it_runs_again_is_a_divergence() -> None:
    now = ["then"]

    @tool
    def moody() -> None:
        raise ValueError(now[0])

    def body() -> None:
        with pytest.raises(ValueError, match=now[0]):
            moody()

    _, source = record(body)
    now[0] = "now"
    with pytest.raises(DivergenceError) as caught, memory_session(source, policy=AGAIN):
        body()
    assert caught.value.to_json()["jsonPath"].startswith("$['error']")


# Inside of each other, and beside each other


@tool
def outer(depth: int) -> list[Any]:
    return [ask("outer"), outer(depth - 1) if depth else function("leaf")]


@kinds
def test_tools_inside_of_tools(kind: str) -> None:
    @tool
    def wraps() -> Any:
        return [ask("before"), KINDS[kind]("x"), ask("after")]

    made, source = record(wraps)
    assert replay(source, wraps) == made
    assert again(source, wraps) == made


def test_a_tool_that_calls_itself() -> None:
    made, source = record(lambda: outer(3))
    assert {event.lane for event in source} == {"0", "0.1", "0.1.1", "0.1.1.1", "0.1.1.1.1"} | {
        "0.1.1.1.1.1"
    }
    assert replay(source, lambda: outer(3)) == made
    assert again(source, lambda: outer(3)) == made


def test_one_tool_runs_again_and_the_ones_inside_are_stubbed() -> None:
    only = Policy(id="p", boundaries=(BoundaryRule(operation="outer", action="re-execute"),))
    made, source = record(lambda: outer(2))
    assert replay(source, lambda: outer(2), policy=only) == made


def test_calls_with_the_same_arguments_at_the_same_time_each_get_their_own_result() -> None:
    async def body() -> list[Any]:
        return await asyncio.gather(*(coroutine("x") for _ in range(8)))

    made, source = record(lambda: asyncio.run(body()))
    assert len({str(one) for one in made}) == 8
    assert replay(source, lambda: asyncio.run(body())) == made
    assert again(source, lambda: asyncio.run(body())) == made


def test_the_same_in_threads_that_a_loop_starts() -> None:
    async def body() -> list[Any]:
        return await asyncio.gather(*(function.acall({"what": "x"}) for _ in range(4)))

    made, source = record(lambda: asyncio.run(body()))
    assert len({str(one) for one in made}) == 4
    assert replay(source, lambda: asyncio.run(body())) == made


def test_the_same_in_threads() -> None:
    def body() -> list[Any]:
        found: dict[int, Any] = {}
        threads = [
            threading.Thread(target=lambda number=number: found.update({number: function("x")}))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[number] for number in range(4)]

    made, source = record(body)
    assert replay(source, body) == made
    assert again(source, body) == made


# Methods and other callables


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def price(self, thing: str, pieces: int = 1) -> list[Any]:
        """What it costs."""
        return [self.name, thing, pieces, ask(thing)]

    @tool
    async def later(self, thing: str) -> list[Any]:
        return [self.name, thing, ask(thing)]

    @tool
    def each(self, thing: str) -> Iterator[int]:
        yield from (ask(thing), ask(thing))

    @tool
    @classmethod
    def open(cls, thing: str) -> list[Any]:
        return [cls.__name__, ask(thing)]

    @staticmethod
    @tool
    def static(thing: str) -> int:
        return ask(thing)

    def __call__(self, thing: str) -> list[Any]:
        """Asks in the shop."""
        return [self.name, ask(thing)]


def _shop() -> list[Any]:
    shop = Shop("one")
    whole = tool(shop, name="shop")
    return [
        shop.price("tea"),
        Shop.price(shop, "tea", 2),
        shop.price.call({"thing": "tea", "pieces": 3}, call_id="c"),
        asyncio.run(shop.later("tea")),
        list(shop.each("tea")),
        Shop.open("tea"),
        shop.open.call({"thing": "tea"}),
        shop.static("tea"),
        whole("tea"),
        tool(shop.price.function, name="bound")("tea"),
        tool(functools.partial(Shop("two").__call__), name="part")("tea"),
    ]


def test_methods_and_callables_of_any_kind() -> None:
    made, source = record(_shop)
    assert made[0][:3] == ["one", "tea", 1]
    assert [data["args"] for data in events(source, "tool_call")[:3]] == [
        {"thing": "tea", "pieces": 1},
        {"thing": "tea", "pieces": 2},
        {"thing": "tea", "pieces": 3},
    ]
    assert replay(source, _shop) == made
    assert again(source, _shop) == made


def test_what_a_model_is_told_of_a_method_leaves_out_self() -> None:
    told = Shop("one").price.definition
    assert (told["name"], told["description"]) == ("price", "What it costs.")
    assert sorted(told["parameters"]["properties"]) == ["pieces", "thing"]
    assert told["parameters"]["required"] == ["thing"]
    shop = tool(Shop("one"), name="shop")
    assert (shop.name, shop.description) == ("shop", "Asks in the shop.")


def test_a_tool_of_a_tool_is_recorded_once() -> None:
    assert tool(function) is function
    renamed = tool(function, name="renamed")
    _, source = record(lambda: renamed("x"))
    assert [data["name"] for data in events(source, "tool_call")] == ["renamed"]


def test_a_callable_in_a_class_is_no_method() -> None:
    class Box:
        asks = tool(functools.partial(ask), name="asks")

    assert Box().asks("x") == WORLD.number


def test_an_argument_that_is_hidden_is_no_part_of_the_call() -> None:
    @tool(hidden=("context",))
    def asks(context: Any, what: str) -> list[Any]:
        return [context.number, ask(what)]

    made, source = record(lambda: asks(WORLD, "x"))
    assert events(source, "tool_call")[0]["args"] == {"what": "x"}
    assert list(asks.parameters["properties"]) == ["what"]
    assert replay(source, lambda: asks(object(), "x")) == made


def test_what_cannot_be_recorded_is_refused_with_its_place() -> None:
    with memory_session(), pytest.raises(ValueRefused, match=r"^\$\.args\.what: a object is no"):
        function(object())  # type: ignore[arg-type]


def test_a_default_that_nobody_gave_need_not_be_plain() -> None:
    @tool
    def asks(what: str, client: Any = WORLD) -> int:
        return ask(what)

    _, source = record(lambda: asks("x"))
    assert events(source, "tool_call")[0]["args"] == {"what": "x"}


# As a function


def test_frameworks_see_the_function_that_it_is() -> None:
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert not inspect.iscoroutinefunction(function)
    assert str(inspect.signature(function)) == "(what: 'str') -> 'list[int]'"
    assert (function.__name__, function.__module__) == ("function", "tests.unit.tools.stage")
    assert inspect.unwrap(function) is function.function


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(generator) is generator
    assert repr(function) == "<tool function>"


def test_reenact_off_changes_nothing() -> None:
    given = object()
    same = tool(lambda value: value, name="same")
    with memory_session(mode="off"):
        assert same(given) is given
    assert same(given) is given
    assert reenact.current() is None
