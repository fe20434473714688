"""JSON Schema for the arguments of a function, from its signature, annotations and docstring."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import Parameter
from pathlib import PurePath
from typing import Annotated, Any, get_args, get_origin

import msgspec

from reenact.errors import ValueRefused
from reenact.format.canonical import canonical
from reenact.format.event import Data
from reenact.tools.values import is_model, to_plain

__all__ = ["parameters_schema", "summary"]

_REF = "#/$defs/{name}"
_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Example|Examples):$"
)
_FIELD = re.compile(r"^:(\w+)[^:]*:")
_NAMED = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


def parameters_schema(
    parameters: Iterable[Parameter], hints: Mapping[str, Any], docstring: str
) -> Data:
    """An object with one property per parameter; ``$defs`` for what the annotations refer to."""
    told = _told(docstring)
    properties: Data = {}
    required: list[str] = []
    defs: Data = {}
    rest: Any = False
    for one in parameters:
        hint = hints.get(one.name, Any)
        schema = _described(_schema(hint, defs), hint, told.get(one.name, ""))
        if one.kind is Parameter.VAR_KEYWORD:
            rest = schema or True
        elif one.kind is Parameter.VAR_POSITIONAL:
            properties[one.name] = {"type": "array", "items": schema}
        else:
            properties[one.name] = schema | _default(one)
            required += [one.name] if one.default is Parameter.empty else []
    found: Data = {"type": "object", "properties": properties, "required": required}
    found["additionalProperties"] = rest
    return found | ({"$defs": defs} if defs else {})


def _schema(hint: Any, defs: Data) -> Data:
    try:
        (schema,), named = msgspec.json.schema_components(
            [hint], schema_hook=_other, ref_template=_REF
        )
    except TypeError:  # a union, say, that msgspec cannot tell apart
        return {}
    for name, one in named.items():
        defs[name] = _lifted(one, defs)
    found: Data = _lifted(schema, defs)
    return found


def _other(kind: Any) -> Data:
    """For classes that msgspec does not know."""
    if is_model(kind):
        found: Data = kind.model_json_schema(ref_template="#/$defs/{model}")
        return found
    return {"type": "string"} if issubclass(kind, PurePath) else {}


def _lifted(schema: Any, defs: Data) -> Any:
    """``schema``, and the ``$defs`` that stand inside of it are in ``defs``."""
    if isinstance(schema, list):
        return [_lifted(one, defs) for one in schema]
    if not isinstance(schema, dict):
        return schema
    for name, one in schema.get("$defs", {}).items():
        defs[name] = _lifted(one, defs)
    return {name: _lifted(one, defs) for name, one in schema.items() if name != "$defs"}


def _default(parameter: Parameter) -> Data:
    if parameter.default is Parameter.empty or parameter.default is None:
        return {}
    try:
        found = to_plain(parameter.default)
        canonical(found)
    except ValueRefused:
        return {}
    return {"default": found}


def _described(schema: Data, hint: Any, told: str) -> Data:
    """With what the annotation says in words, or the docstring."""
    said = ""
    if get_origin(hint) is Annotated:
        words = [getattr(one, "description", one) for one in get_args(hint)[1:]]
        said = next((word for word in words if isinstance(word, str)), "")
    text = said or schema.get("description") or told
    return {**schema, "description": text} if text and "$ref" not in schema else schema


# Docstrings


def summary(docstring: str) -> str:
    """What a docstring says before it goes into arguments and results."""
    kept: list[str] = []
    for line in docstring.splitlines():
        if _SECTION.match(line) or _FIELD.match(line):
            break
        kept.append(line.rstrip())
    return "\n".join(kept).strip()


def _told(docstring: str) -> dict[str, str]:
    """What a docstring says about each argument: ``Args:`` with indented names, or ``:param x:``."""
    found: dict[str, str] = {}
    name, depth, inside = "", 0, False
    for line in docstring.splitlines():
        if (sphinx := _SPHINX.match(line)) is not None:
            name, depth, inside = sphinx[1], 0, True
            found[name] = sphinx[2]
        elif _SECTION.match(line):
            inside, name, depth = line.startswith(("Args", "Arguments", "Parameters")), "", 0
        elif inside and (match := _NAMED.match(line)) and len(match[1]) <= (depth or 99):
            name, depth = match[2], len(match[1])
            found[name] = match[3]
        elif inside and name and line.startswith(" ") and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
        elif line and not line.startswith(" "):
            inside = False
    return found
