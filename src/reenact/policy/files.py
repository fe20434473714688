"""Reader of policy files that reports every mistake with its path, its line and the nearest valid name.

msgspec stops at the first mistake and does not report the key of a map. The checks here follow the
same type definitions, so the two cannot drift apart. msgspec still builds the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import inspect as types

from reenact.errors import PolicyInvalid, ValueRefused, did_you_mean
from reenact.format.canonical import decode, digest
from reenact.format.decoders import build_decoders
from reenact.format.json_path import Path as JsonPath
from reenact.format.json_path import join
from reenact.policy.model import Policy, Sanitizer
from reenact.policy.paths import FOLDER, unsafe_reason
from reenact.policy.patterns import lazy_pattern

__all__ = [
    "Finding",
    "Loaded",
    "Problem",
    "content_of",
    "lines_of",
    "load_file",
    "problems",
    "raise_first",
    "read",
]

S = TypeVar("S", bound=msgspec.Struct)

_LARGEST = 1 << 20


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong (``error``) or odd (``warning``) in the files of a policy.

    ``file`` is relative to the root; ``path`` is where in it, ``$`` being the whole.
    """

    severity: Literal["error", "warning"]
    file: str
    path: str
    message: str
    hint: str = ""

    @property
    def place(self) -> str:
        """File and path, for people."""
        return self.file if self.path == "$" else f"{self.file} {self.path}"

    def to_error(self) -> PolicyInvalid:
        """Convert the finding to an exception."""
        return PolicyInvalid(f"{self.place}: {self.message}", place=self.place, hint=self.hint)


class Loaded(msgspec.Struct, Generic[S], frozen=True):
    """A file that was read. ``stated`` are the dotted names of the fields that it has."""

    value: S
    raw: dict[str, Any]
    digest: str
    file: str
    stated: frozenset[str]


def raise_first(findings: list[Finding]) -> None:
    """Raise :class:`PolicyInvalid` for the first error. Warnings are ignored."""
    for finding in findings:
        if finding.severity == "error":
            raise finding.to_error()


def load_file(
    root: Path, relative: str, kind: type[S], schema: str
) -> tuple[Loaded[S] | None, list[Finding]]:
    """Read ``relative``, a path below the folder ``.reenact``, as a file of this kind.

    The value is there when no finding is an error. The digest is over the parsed JSON, so that
    reformatting a file changes nothing. Raises nothing.
    """
    file = f"{FOLDER}/{relative}"
    raw, reason, hint = _parsed(root, relative)
    if reason:
        return None, [Finding("error", file, "$", reason, hint)]
    found = list(_version_findings(raw, file, schema))
    if not found:
        found = [
            Finding("error", file, one.path, one.message, one.hint) for one in problems(raw, kind)
        ]
    if found:
        return None, found
    stated = frozenset(_names(raw, ""))
    return Loaded(read(raw, kind), raw, digest(raw), file, stated), []


def _parsed(root: Path, relative: str) -> tuple[Any, str, str]:
    """The JSON value; or the reason why there is none, and a hint."""
    reason = unsafe_reason(relative)
    if reason is not None:
        return None, f"the path {relative[:200]!r} is refused: {reason}", "name a file in .reenact"
    try:
        encoded = content_of(root / FOLDER, relative)
    except FileNotFoundError:
        return None, "there is no such file", "reenact policy init writes a working set"
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return None, f"it cannot be read: {reason}", "check the file and its permissions"
    try:
        return decode(encoded), "", ""
    except ValueRefused as refused:
        return None, refused.message.removeprefix("$: "), "see `reenact policy init` for an example"


def content_of(folder: Path, relative: str) -> bytes:
    """The bytes of a regular file inside ``folder``. Raises OSError, or ValueError with a reason."""
    path = (folder / relative).resolve(strict=True)
    if not path.is_relative_to(folder.resolve()):
        raise ValueError("a symlink leads out of its folder")
    if not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return content


def _version_findings(raw: Any, file: str, schema: str) -> Iterator[Finding]:
    """Report a file of the wrong kind or version, for which no other check applies."""
    if not isinstance(raw, dict):
        yield Finding("error", file, "$", "it is not a JSON object", "see `reenact policy init`")
    elif "schemaVersion" not in raw:
        hint = f'add "schemaVersion": "{schema}"'
        yield Finding("error", file, "$", "the field schemaVersion is missing", hint)
    elif raw["schemaVersion"] != schema:
        message = f"this is not a file of version {schema}"
        hint = f'expected "schemaVersion": "{schema}"; a later one needs a later reenact'
        yield Finding("error", file, "$.schemaVersion", message, hint)


def _names(raw: dict[str, Any], before: str) -> Iterator[str]:
    for name, item in raw.items():
        yield f"{before}{name}"
        if isinstance(item, dict):
            yield from _names(item, f"{before}{name}.")


_LONGEST_SHOWN = 40

# Here, because most runs read no policy file and building takes a millisecond.
build_decoders(Policy, Sanitizer)


class Problem(msgspec.Struct, frozen=True):
    """One mistake. ``path`` is where it sits in the file, ``$`` being the whole."""

    path: str
    message: str
    hint: str = ""


def read(raw: Any, kind: type[S]) -> S:
    """The value of a file in which :func:`problems` finds nothing."""
    return msgspec.convert(raw, kind)


def problems(raw: Any, kind: type[msgspec.Struct]) -> list[Problem]:
    """Every mistake in ``raw`` against the fields of ``kind``, in the order of the file."""
    return list(_look(raw, types.type_info(kind), ()))


def _look(value: Any, kind: types.Type, path: JsonPath, words: str = "") -> Iterator[Problem]:
    if isinstance(kind, types.Metadata):
        words = (kind.extra or {}).get("expected", words)
        kind = kind.type
    yield from _LOOKS[type(kind)](value, kind, path, words)


def _expected(what: str, value: Any, path: JsonPath) -> Problem:
    """Report the expected and the actual kind of a value, but not the value, which can be a secret."""
    return Problem(join(path), f"expected {what}, found {_called(value)}")


def _called(value: Any) -> str:
    if isinstance(value, str) and not value:
        return "an empty text"
    return _CALLED.get(type(value), "something else")


_CALLED: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "another text",
    type(None): "null",
}


def _struct(value: Any, kind: types.StructType, path: JsonPath, _: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _expected("an object", value, path)
        return
    known = {field.encode_name: field for field in kind.fields}
    for name, item in value.items():
        field = known.get(name)
        if field is None:
            hint = did_you_mean(name, known.keys() - value.keys())
            yield Problem(join((*path, name)), "there is no such field", hint)
        else:
            yield from _look(item, field.type, (*path, name))
    for name, field in known.items():
        if field.required and name not in value:
            yield Problem(join(path), f"the field {name} is missing", f"add {name}")


def _map(value: Any, kind: types.DictType, path: JsonPath, _: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _expected("an object", value, path)
        return
    for name, item in value.items():
        yield from _look(name, kind.key_type, (*path, name))
        yield from _look(item, kind.value_type, (*path, name))


def _list(value: Any, kind: types.VarTupleType, path: JsonPath, _: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield _expected("a list", value, path)
        return
    for index, item in enumerate(value):
        yield from _look(item, kind.item_type, (*path, index))


def _choice(value: Any, kind: types.LiteralType, path: JsonPath, _: str) -> Iterator[Problem]:
    options = [str(one) for one in kind.values]
    if not isinstance(value, str):
        yield _expected(f"one of {', '.join(options)}", value, path)
    elif value not in options:
        shown = repr(value[:_LONGEST_SHOWN])
        yield Problem(join(path), f"{shown} is not a choice here", did_you_mean(value, options))


def _union(value: Any, kind: types.UnionType, path: JsonPath, words: str) -> Iterator[Problem]:
    """Only ``something | None`` is in use."""
    (inner,) = (one for one in kind.types if not isinstance(one, types.NoneType))
    if value is not None:
        yield from _look(value, inner, path, words)


def _text(value: Any, kind: types.StrType, path: JsonPath, words: str) -> Iterator[Problem]:
    if (
        not isinstance(value, str)
        or len(value) < (kind.min_length or 0)
        or (kind.max_length is not None and len(value) > kind.max_length)
        or (kind.pattern is not None and re.search(kind.pattern, value) is None)
    ):
        yield _expected(words or "a text", value, path)


def _number(value: Any, kind: types.IntType, path: JsonPath, words: str) -> Iterator[Problem]:
    if (
        type(value) is not int
        or (kind.ge is not None and value < kind.ge)
        or (kind.le is not None and value > kind.le)
    ):
        yield _expected(words or "a whole number", value, path)


def _flag(value: Any, _: types.BoolType, path: JsonPath, words: str) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield _expected("true or false", value, path)


_LOOKS: dict[type[types.Type], Callable[[Any, Any, JsonPath, str], Iterator[Problem]]] = {
    types.BoolType: _flag,
    types.DictType: _map,
    types.IntType: _number,
    types.LiteralType: _choice,
    types.StrType: _text,
    types.StructType: _struct,
    types.UnionType: _union,
    types.VarTupleType: _list,
}


_TOKEN = lazy_pattern(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,\n]|[^\s\[\]{}:,"]+')


def lines_of(text: str) -> dict[str, int]:
    """Return the line of every value by its path (``$.tests[0].id``); for a field, the line of its
    name.

    ``text`` is JSON. The last line counts for a duplicate name.
    """
    found = {"$": 1}
    open_: list[_Container] = []
    line = 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
            continue
        inside = open_[-1] if open_ else None
        if inside is not None and token not in ",:]}" and inside.begins(token):
            found[join(inside.path)] = line
        if token in "[{":
            open_.append(_Container(() if inside is None else inside.path, token))
        elif token in "]}" and open_:
            open_.pop()
        elif token == "," and inside is not None:
            inside.go_on()
    return found


class _Container:
    """An object or a list that is being read. ``path`` is where the next value belongs."""

    def __init__(self, path: JsonPath, token: str) -> None:
        self._at = path
        self._step: str | int | None = 0 if token == "[" else None

    @property
    def path(self) -> JsonPath:
        return self._at if self._step is None else (*self._at, self._step)

    def begins(self, token: str) -> bool:
        """Is ``token`` where something begins: an item, or the name of a field?"""
        if isinstance(self._step, int):
            return True
        if self._step is None:
            self._step = _name(token)
            return True
        return False

    def go_on(self) -> None:
        """A comma: the next one."""
        self._step = self._step + 1 if isinstance(self._step, int) else None


def _name(token: str) -> str:
    import json  # strings have escapes

    try:
        return str(json.loads(token))
    except ValueError:
        return token
