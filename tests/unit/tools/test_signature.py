"""What a model is told of a tool: its name, what it does, and JSON Schema of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from reenact.tools.tool import tool

pydantic = pytest.importorskip("pydantic")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.5


class Part(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    name: str


class Model(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    part: Part


class Client:
    """Nothing that JSON Schema knows."""


POINT, CLIENT = Point(1), Client()


def _of(annotation: Any) -> Any:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    return tool(take).parameters


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Path, {"type": "string"}),
        (Any, {}),
        (Client, {}),
        (Point | Model, {}),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (Annotated[str, "the city"], {"type": "string", "description": "the city"}),
        (
            Annotated[str, pydantic.Field(description="the town")],
            {"type": "string", "description": "the town"},
        ),
    ],
    ids=str,
)
def test_the_schema_of_an_annotation(annotation: Any, schema: Any) -> None:
    found = _of(annotation)
    assert found["properties"] == {"value": schema}
    assert (found["required"], found["additionalProperties"]) == (["value"], False)
    assert "$defs" not in found


def test_classes_are_defined_beside() -> None:
    found = _of(list[Point])
    assert found["properties"]["value"]["items"] == {"$ref": "#/$defs/Point"}
    assert found["$defs"]["Point"]["properties"]["x"] == {"type": "integer"}
    assert _of(Colour)["$defs"]["Colour"]["enum"] == ["blue", "red"]


def test_models_of_pydantic_say_themselves_what_they_are() -> None:
    found = _of(Model)
    assert found["properties"]["value"]["properties"]["part"] == {"$ref": "#/$defs/Part"}
    assert found["$defs"]["Part"]["required"] == ["name"]


def test_defaults_and_spread_arguments() -> None:
    def take(
        first: int, /, *rest: str, by: Point = POINT, to: Any = CLIENT, **more: int
    ) -> None: ...

    found = tool(take).parameters
    assert found["required"] == ["first"]
    assert found["properties"]["rest"] == {"type": "array", "items": {"type": "string"}}
    assert found["properties"]["by"]["default"] == {"x": 1, "y": 0.5}
    assert "default" not in found["properties"]["to"]
    assert found["additionalProperties"] == {"type": "integer"}


def _google(city: str, days: int = 1) -> None:
    """The weather of a city.

    It may rain.

    Args:
        city: where, in
            any language
        days (int): how many

    Returns:
        city: nothing about the argument
    """


def _sphinx(city: str, days: int = 1) -> None:
    """The weather of a city.

    It may rain.

    :param city: where, in
        any language
    :param int days: how many
    :returns: nothing
    """


@pytest.mark.parametrize("function", [_google, _sphinx])
def test_what_a_docstring_says_about_arguments(function: Any) -> None:
    made = tool(function, name="weather")
    assert made.description == "The weather of a city.\n\nIt may rain."
    told = {name: one.get("description") for name, one in made.parameters["properties"].items()}
    assert told == {"city": "where, in any language", "days": "how many"}


def test_what_was_said_goes_before_the_docstring() -> None:
    made = tool(_google, name="weather", description="Rain or shine.")
    assert made.definition == {
        "name": "weather",
        "description": "Rain or shine.",
        "parameters": made.parameters,
    }
    assert tool(lambda: None, name="bare").description == ""
