"""Arguments and results by value: what is known, what comes back as what, what is refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from reenact import ValueRefused
from reenact.tools import values
from reenact.tools.tool import tool
from reenact.tools.values import Kind, to_plain
from tests.unit.tools.stage import events, record, replay

pydantic = pytest.importorskip("pydantic")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    HI = "hi"


@dataclass
class Point:
    x: int
    y: float = 0.5
    tags: tuple[str, ...] = ()
    colour: Colour = Colour.RED
    inner: Point | None = None
    at: list[datetime] = field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: str


class Struct(msgspec.Struct):
    a_name: int


class Typed(TypedDict):
    a: int


class Model(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    name: str
    when: datetime | None = None
    parts: list[Point] = pydantic.Field(default_factory=list)
    raw: Any = pydantic.Field(default=None, alias="rawValue")


NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)

KEPT: dict[str, tuple[Any, Any]] = {
    "dataclass": (Point, Point(1, 2.5, ("a",), at=[NOW])),
    "nested": (list[Point], [Point(1, inner=Point(2))]),
    "optional": (Point | None, None),
    "by name": (dict[str, Point], {"a": Point(1)}),
    "enum": (Colour, Colour.RED),
    "int enum": (Level, Level.LOW),
    "text enum": (Word, Word.HI),
    "tuple": (tuple[int, str], (1, "a")),
    "named tuple": (Pair, Pair(1, "a")),
    "set": (set[int], {3, 1, 2}),
    "frozen set": (frozenset[str], frozenset("ab")),
    "moment": (datetime, NOW),
    "naive moment": (datetime, datetime(2026, 1, 2)),  # noqa: DTZ001 - it is to have none
    "date": (date, date(2026, 1, 2)),
    "time": (time, time(3, 4)),
    "span": (timedelta, timedelta(days=1, seconds=3)),
    "uuid": (UUID, UUID(int=7)),
    "decimal": (Decimal, Decimal("1.10")),
    "path": (Path, Path("a/b")),
    "bytes": (bytes, b"\xff\x00"),
    "struct": (Struct, Struct(3)),
    "model": (Model, Model(name="a", when=NOW, parts=[Point(1)], rawValue={"x": 1})),
    "models": (list[Model], [Model(name="a")]),
    "typed dict": (Typed, {"a": 1}),
    "literal": (Literal["a", "b"], "a"),
    "whole number": (float, 3),
    "plain": (Any, {"a": [1, 2.5, None, True, "x", b"y"]}),
    "nothing said": (None, None),
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_result_comes_back_as_its_annotation_says(name: str) -> None:
    annotation, value = KEPT[name]

    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    made, source = record(tool(give))
    assert made == value
    assert type(made) is type(value)
    again = replay(source, tool(give))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("name", sorted(KEPT))
def test_an_argument_is_recorded_as_plain_data(name: str) -> None:
    annotation, value = KEPT[name]

    def take(value: Any) -> str:
        return f"{type(value).__name__} {value!r}"

    take.__annotations__["value"] = annotation
    made, source = record(lambda: tool(take)(value))
    assert made == f"{type(value).__name__} {value!r}", "while recording it gets what was given"
    (call,) = events(source, "tool_call")
    assert call["args"] == {"value": to_plain(value)}
    assert replay(source, lambda: tool(take)(value)) == made


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_a_model_gives_becomes_what_the_annotation_says(name: str) -> None:
    annotation, value = KEPT[name]

    def take(value: Any) -> bool:
        SEEN.append(value)
        return True

    take.__annotations__["value"] = annotation
    SEEN.clear()
    tool(take).call({"value": to_plain(value)})
    assert [value] == SEEN
    assert type(SEEN[0]) is (float if annotation is float else type(value))


SEEN: list[Any] = []

LOST: dict[str, tuple[Any, Any, str]] = {
    "nobody said it is a dataclass": (Any, Point(1), r"\$\.result: a Point .* as a dict"),
    "deep inside": (Any, {"a": [1, Point(1)]}, r"\$\.result\.a\[1\]: a Point .* as a dict"),
    "another class": (Struct, Point(1), r"\$\.result: a Point .* as a dict"),
    "an enum for a text": (str, Word.HI, r"\$\.result: a Word .* as a str"),
    "an enum for a number": (int, Level.LOW, r"\$\.result: a Level .* as a int"),
    "a set for anything": (Any, {1}, r"\$\.result: a set .* as a list"),
    "a named tuple for anything": (Any, Pair(1, "a"), r"\$\.result: a Pair .* as a list"),
    "an object": (Any, [object()], r"\$\.result\[0\]: a object is not plain data"),
    "a function": (Any, {"f": print}, r"\$\.result\.f: a builtin_function_or_method is no"),
    "not a number": (float, [float("nan")], r"\$\.result\[0\]: nan is not a JSON number"),
    "a key that is no text": (Any, {"a": {1: 2}}, r"\$\.result\.a: a key is a int, not text"),
}


@pytest.mark.parametrize("name", sorted(LOST))
def test_what_would_come_back_as_something_else_is_refused(name: str) -> None:
    annotation, value, why = LOST[name]

    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation

    def body() -> None:
        with pytest.raises(ValueRefused, match=why):
            tool(give)()

    _, source = record(body)
    assert events(source, "tool_result")[0]["error"]["class"] == "reenact.errors.ValueRefused"
    replay(source, body)


@pytest.mark.parametrize(
    "value, plain",
    [
        ((1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (bytearray(b"x"), b"x"),
        ([(1, (2,))], [[1, [2]]]),
        ({Word.HI: 1}, {"hi": 1}),
    ],
)
def test_what_nobody_annotated_comes_as_plain_data_while_recording_too(
    value: Any, plain: Any
) -> None:
    made, source = record(tool(lambda: value, name="give"))
    assert made == plain
    assert type(made) is type(plain)
    assert replay(source, tool(lambda: value, name="give")) == plain


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueRefused, match="nested deeper than 200"):
        to_plain(value)


def test_a_result_is_a_copy() -> None:
    kept: list[int] = [1]
    made, _ = record(tool(lambda: kept, name="give"))
    made.append(2)
    assert kept == [1]


@pytest.mark.parametrize(
    "annotation, data, why",
    [
        (int, "x", "Expected `int`, got `str`"),
        (Colour, "blue", "Invalid enum value 'blue'"),
        (Point, {"x": "one"}, "Expected `int`, got `str` - at `\\$.x`"),
        (Model, {}, "name"),
        (list[datetime], ["soon"], "Invalid RFC3339"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(annotation: Any, data: Any, why: str) -> None:
    def take(value: Any) -> None:
        raise AssertionError("called with something that does not fit")

    take.__annotations__["value"] = annotation
    with pytest.raises(ValueError, match=f"(?s)the argument 'value' does not fit: .*{why}"):
        tool(take).call({"value": data})


def test_models_may_give_numbers_as_text() -> None:
    def take(count: int, share: float, loud: bool) -> list[Any]:
        return [count, share, loud]

    found = tool(take).call({"count": "3", "share": 1, "loud": "true"})
    assert (found, type(found[1])) == ([3, 1.0, True], float)


def test_annotations_that_nobody_can_read_are_left_alone() -> None:
    def take(value: Nobody, other: Point | Struct) -> Any:  # type: ignore[name-defined] # noqa: F821
        return [value, other]

    assert tool(take).call({"value": 1, "other": {"x": 1}}) == [1, {"x": 1}]
    made, source = record(lambda: tool(take).call({"value": 1, "other": {"x": 1}}))
    assert replay(source, lambda: tool(take).call({"value": 1, "other": {"x": 1}})) == made


def test_spread_arguments() -> None:
    def take(first: int, /, *rest: int, by: str = "x", **more: Point) -> Any:
        return [first, list(rest), by, sorted(more)]

    taking = tool(take)
    assert taking.call({"first": 1, "rest": [2, 3], "by": "y", "p": {"x": 1}}) == [
        1,
        [2, 3],
        "y",
        ["p"],
    ]
    _, source = record(lambda: taking(1, 2, 3, p=Point(4)))
    (call,) = events(source, "tool_call")
    assert call["args"] == {
        "first": 1,
        "rest": [2, 3],
        "by": "x",
        "more": {"p": to_plain(Point(4))},
    }


def test_a_coroutine_tool_has_the_same_values() -> None:
    @tool
    async def moved(point: Point) -> Point:
        return Point(point.x + 1)

    def body() -> Any:
        return asyncio.run(moved.acall({"point": {"x": 1}}))

    made, source = record(body)
    assert made == Point(2)
    assert replay(source, body) == Point(2)


def test_a_value_that_does_not_fit_its_annotation_stays_plain() -> None:
    assert Kind(Point).typed({"no": "point"}) == {"no": "point"}


RACE = """
import sys, threading
from dataclasses import make_dataclass
from reenact.tools.values import Kind

kinds = [int]
for number in range(40):
    kinds.append(make_dataclass(f"C{number}", [("a", int), ("of", kinds[-1] | None, None)]))
at_once, done = threading.Barrier(8), []

def work():
    at_once.wait()
    done.append(Kind(kinds[-1]).read({"a": 1}).a)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(sum(done))
"""


def test_threads_that_read_by_a_class_for_the_first_time_at_once() -> None:
    for _ in range(5):  # without care two of five crash
        done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr


def test_a_child_that_is_forked_while_a_thread_reads_can_read() -> None:
    own = make_dataclass("Own", [("x", int)])  # which nobody has read by
    with values._building:
        pid = os.fork()
        if not pid:
            signal.alarm(60)  # ends it, should it wait for the lock
            os._exit(Kind(own).read({"x": 3}).x)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_an_annotation_without_a_hash_is_read_by() -> None:
    assert Kind(Annotated[Point, {"a": 1}]).read({"x": "3", "y": 4}).x == 3
