"""``tests.json``: tests that are data. Each names a function, and the cassettes it is run with.

A test manifest of X07, ``x07.tests_manifest@0.1.0`` or ``@0.2.0``, is read as a ``tests.json`` of
Reenact. A field without a counterpart is an error with the place and what to do, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from reenact.errors import PathRefused, ValueRefused, did_you_mean
from reenact.format.canonical import decode
from reenact.format.decoders import build_decoders
from reenact.policy.files import Finding, content_of, lines_of, problems, read
from reenact.policy.model import (
    CasePath,
    CassetteName,
    Entry,
    ExceptionName,
    Id,
    Mode,
    TestId,
    World,
)
from reenact.policy.paths import fixture_folder, unsafe_reason

__all__ = [
    "TESTS",
    "TESTS_SCHEMA",
    "X07_TESTS",
    "X07_WORLDS",
    "Case",
    "Cases",
    "entry_modules",
    "from_x07",
    "is_ours",
    "is_x07_manifest",
    "read_cases",
]

X07_TESTS = "x07.tests_manifest"
"""The id of the schema, without its version."""

X07_WORLDS = {"solve-rr": "test", "solve-full": "test", "run-os": "local"}
"""The worlds of X07 that have a counterpart."""

_VERSION = "schema_version"
_VERSIONS = ("0.1.0", "0.2.0")
_OURS = "reenact.tests@1"
_KEPT = ("id", "expect", "fixture_root")
_FIELDS = (*_KEPT, "world", "entry", "returns")
_NEED_FIXTURES = ("solve-rr", "solve-full")
_FORBID_FIXTURES = ("run-os",)
_RESULT = "result_i32"
_ENTRY_HINT = "app.rr_smoke_v1 is the function rr_smoke_v1 of the Python module app"
_INPUT = "read the bytes in the entry, which is called without arguments"
_SANDBOX = "Reenact has no sandbox of X07: run the test with x07 test"
_UNSUPPORTED = {
    "timeout_ms": "delete it; pytest-timeout limits the time of a test",
    "solve_fuel": "delete it; pytest-timeout limits the time of a test",
    "policy_json": "delete it and give the id of a pinned policy to rr.with_policy",
    "input_b64": _INPUT,
    "input_path": _INPUT,
    "pbt": "write the property with Hypothesis, in a test module",
    "require_runtime_attestation": _SANDBOX,
    "required_capsules": _SANDBOX,
    "sandbox_smoke": _SANDBOX,
}
"""Fields without a counterpart, and what to do instead."""

_Mistake = tuple[str, str, str]
"""Path, message and hint."""


def is_x07_manifest(raw: Any) -> bool:
    """Return True for a document with the id of X07's schema, in any version."""
    version = raw.get(_VERSION) if isinstance(raw, dict) else None
    return isinstance(version, str) and version.partition("@")[0] == X07_TESTS


def entry_modules(raw: Any) -> list[str]:
    """Return the modules of the entries in a manifest, as far as they can be read."""
    tests = raw.get("tests") if is_x07_manifest(raw) else None
    entries = (
        test.get("entry")
        for test in (tests if isinstance(tests, list) else ())
        if isinstance(test, dict)
    )
    names = {one.rpartition(".")[0] for one in entries if isinstance(one, str)}
    return sorted(name for name in names if all(part.isidentifier() for part in name.split(".")))


def from_x07(raw: dict[str, Any], worlds: Iterable[str]) -> tuple[dict[str, Any], list[_Mistake]]:
    """Return the manifest as a ``tests.json`` of Reenact, and everything that cannot be converted.

    ``worlds`` are the known ones: a world of X07 that the index names keeps its name. Values of the
    wrong type are left to the reader of ``tests.json``, which finds them at the same paths.
    """
    version = raw[_VERSION].partition("@")[2]
    if version not in _VERSIONS:
        message = f"the version {version[:20]} of {X07_TESTS} is not known"
        return raw, [(f"$.{_VERSION}", message, f"known are {' and '.join(_VERSIONS)}")]
    tests = raw.get("tests")
    if not isinstance(tests, list):
        return {**raw, _VERSION: _OURS}, []
    known = frozenset(worlds)
    mistakes = [
        (f"$.tests[{number}]{path}", message, hint)
        for number, test in enumerate(tests)
        if isinstance(test, dict)
        for path, message, hint in _x07_mistakes(test, known)
    ]
    return {
        **raw,
        _VERSION: _OURS,
        "tests": [_x07_converted(test, known) for test in tests],
    }, mistakes


def _x07_converted(test: Any, known: frozenset[str]) -> Any:
    if not isinstance(test, dict):
        return test
    made = {name: test[name] for name in _KEPT if name in test}
    entry, world = test.get("entry"), test.get("world")
    if "entry" in test:
        made["entry"] = ":".join(entry.rsplit(".", 1)) if isinstance(entry, str) else entry
    if isinstance(world, str):
        made["world"] = world if world in known else X07_WORLDS.get(world, world)
    return made


def _x07_mistakes(test: dict[str, Any], known: frozenset[str]) -> Iterator[_Mistake]:
    for name in test:
        if name in _UNSUPPORTED:
            message = f"X07's field {name} has no counterpart in Reenact"
            yield f".{name}", message, _UNSUPPORTED[name]
        elif name not in _FIELDS:
            message = f"X07's manifest has no field {name[:64]!r}"
            yield f".{name}", message, did_you_mean(name, (*_FIELDS, *_UNSUPPORTED))
    if test.get("returns", _RESULT) != _RESULT:
        hint = f"delete it, or say {_RESULT}: an entry passes if it returns and fails if it raises"
        yield ".returns", "only entries that return a result are supported", hint
    entry = test.get("entry")
    if isinstance(entry, str) and (":" in entry or not all(entry.rpartition("."))):
        yield ".entry", f"{entry[:100]!r} is not module.function", _ENTRY_HINT
    yield from _x07_world_mistakes(test, known)


def _x07_world_mistakes(test: dict[str, Any], known: frozenset[str]) -> Iterator[_Mistake]:
    world = test.get("world")
    if world is None:
        yield "", "the field world is missing", f"one of {', '.join(X07_WORLDS)}"
    elif isinstance(world, str) and world not in X07_WORLDS and world not in known:
        hint = (
            f"supported are {', '.join(X07_WORLDS)} and the worlds that .reenact/index.json names"
        )
        yield ".world", f"X07's world {world[:64]} has no counterpart in Reenact", hint
    has_fixtures = test.get("fixture_root") is not None
    if world in _NEED_FIXTURES and not has_fixtures:
        hint = "name the folder in whose rr the cassettes lie, such as fixtures/replay"
        yield "", f"a test in the world {world} needs a fixture_root", hint
    if world in _FORBID_FIXTURES and has_fixtures:
        yield ".fixture_root", f"a test in the world {world} has no fixture_root", "delete it"


TESTS = "tests.json"
"""The name of the file."""

TESTS_SCHEMA = "reenact.tests@1"


class Case(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One test: a function that is called without arguments, and what is expected of it."""

    id: Annotated[TestId, Meta(description="the unique name of the test")]
    entry: Annotated[Entry, Meta(description="the function, also async: module:function")]
    world: Annotated[
        World | None, Meta(description="the world of the test (default: the world of the test run)")
    ] = None
    expect: Annotated[
        Literal["pass", "fail", "skip"],
        Meta(description="whether it returns, raises an exception, or is not run"),
    ] = "pass"
    raises: Annotated[
        ExceptionName | None,
        Meta(description="with fail: the exception, or a class that it is one of"),
    ] = None
    fixture_root: Annotated[
        CasePath | None,
        Meta(description="the folder, seen from this file, in whose rr the cassettes lie"),
    ] = None
    cassette: Annotated[
        CassetteName | None,
        Meta(description="what the test is run with; left out, the entry opens what it needs"),
    ] = None
    policy: Annotated[Id | None, Meta(description="with cassette: the policy in force")] = None
    mode: Annotated[Mode | None, Meta(description="with cassette: how it is used")] = None


class Cases(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The tests of one file."""

    schema_version: Annotated[
        Literal["reenact.tests@1"], Meta(description="which kind of file this is")
    ] = "reenact.tests@1"
    tests: Annotated[tuple[Case, ...], Meta(description="in the order in which they are run")]


build_decoders(Cases)


def is_ours(path: Path, *folders: Path) -> bool:
    """Return whether this ``tests.json`` lists tests for Reenact. Many tools have such a file.

    An X07 manifest does if one of its entries is in a Python module next to it or in ``folders``.
    """
    try:
        content = content_of(path.parent, path.name)
    except (OSError, ValueError, RuntimeError):
        return False
    if f'"{TESTS_SCHEMA.partition("@")[0]}@'.encode() in content:
        return True
    if f'"{X07_TESTS}@'.encode() not in content:
        return False
    try:
        modules = entry_modules(decode(content))
    except ValueRefused:
        return False
    stems = (
        folder.joinpath(*name.split(".")) for name in modules for folder in (path.parent, *folders)
    )
    return any(one.with_suffix(".py").is_file() or (one / "__init__.py").is_file() for one in stems)


def read_cases(
    path: Path, file: str, worlds: Iterable[str]
) -> tuple[list[tuple[Case, int]], list[Finding]]:
    """Return the tests in the file at ``path`` with their lines, and everything that is wrong with
    it.

    X07 manifests are supported (:mod:`reenact.policy.json_tests`). ``file`` is the name for
    findings, to which the line is added. ``worlds`` are the known worlds. The list of tests is
    empty if there are findings. Never raises.
    """
    try:
        text = content_of(path.parent, path.name)
        raw = decode(text)
    except ValueRefused as refused:
        return [], [Finding("error", file, "$", refused.message.removeprefix("$: "), _EXAMPLE)]
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [], [Finding("error", file, "$", f"it cannot be read: {reason}", _EXAMPLE)]
    lines = lines_of(text.decode())
    tests: tuple[Case, ...] = ()
    found: list[_Mistake] = []
    if is_x07_manifest(raw):
        raw, found = from_x07(raw, worlds)
    found = found or list(_mistakes(raw))
    if not found:
        tests = read(raw, Cases).tests
        found = list(_contradictions(tests, path.parent, frozenset(worlds)))
    if not found:
        return [(case, lines[f"$.tests[{number}]"]) for number, case in enumerate(tests)], []
    return [], [
        Finding("error", f"{file}:{_line(lines, where)}", where, message, hint)
        for where, message, hint in found
    ]


"""Path, message and hint."""

_EXAMPLE = f'{{"{_VERSION}": "{TESTS_SCHEMA}", "tests": [{{"id": "smoke", "entry": "app:smoke"}}]}}'


def _line(lines: dict[str, int], where: str) -> int:
    """Of what is missing, the line of what it is missing in."""
    while where not in lines:
        where = where[: max(where.rfind("."), where.rfind("["), 1)]
    return lines[where]


def _mistakes(raw: Any) -> Iterator[_Mistake]:
    if not isinstance(raw, dict):
        yield "$", "it is not a JSON object", _EXAMPLE
    elif raw.get(_VERSION) != TESTS_SCHEMA:
        where = f"$.{_VERSION}" if _VERSION in raw else "$"
        yield where, f"this is not a list of tests of version {TESTS_SCHEMA}", _EXAMPLE
    else:
        yield from ((one.path, one.message, one.hint) for one in problems(raw, Cases))


def _contradictions(
    tests: tuple[Case, ...], folder: Path, worlds: frozenset[str]
) -> Iterator[_Mistake]:
    if not tests:
        yield "$.tests", "it names no test", _EXAMPLE
    first: dict[str, int] = {}
    for number, case in enumerate(tests):
        place = f"$.tests[{number}]"
        if first.setdefault(case.id, number) != number:
            message = f"{case.id} stands twice, first at $.tests[{first[case.id]}]"
            yield f"{place}.id", message, "every test requires a unique id"
        yield from (
            (f"{place}.{name}", message, hint)
            for name, message, hint in _of_case(case, folder, worlds)
        )


def _of_case(case: Case, folder: Path, worlds: frozenset[str]) -> Iterator[_Mistake]:
    if case.world is not None and case.world not in worlds:
        meant = X07_WORLDS.get(case.world)
        hint = f"X07's {case.world} is {meant}" if meant else did_you_mean(case.world, worlds)
        yield (
            "world",
            f"{case.world} is not a known world",
            f"{hint} (policies in the index can define others)",
        )
    if case.raises is not None and case.expect != "fail":
        yield (
            "raises",
            f"raises requires expect fail, but expect is {case.expect}",
            'say "expect": "fail"',
        )
    for name in ("policy", "mode"):
        if getattr(case, name) is not None and case.cassette is None:
            hint = f"add the cassette, or set the {name} where the entry opens a cassette"
            yield name, f"the {name} requires a cassette", hint
    reason = None if case.cassette is None else unsafe_reason(case.cassette)
    if reason is not None:
        hint = "a name such as weather or api/weather"
        yield "cassette", f"it cannot be a cassette: {reason}", hint
    if case.fixture_root is not None:
        yield from _of_fixtures(folder, case.fixture_root)


def _of_fixtures(folder: Path, fixture_root: str) -> Iterator[_Mistake]:
    if fixture_root.startswith("/"):
        yield "fixture_root", "it is absolute", "name a folder, seen from this file"
        return
    try:
        fixture_folder(folder, fixture_root)
    except PathRefused as refused:
        reason = str(refused.fields["reason"])
        yield "fixture_root", f"it cannot be a fixture root: {reason}", refused.hint
