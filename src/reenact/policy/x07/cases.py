"""X07's test manifests, ``x07.tests_manifest@0.1.0`` and ``@0.2.0``, as a ``tests.json`` of Reenact.

A field without a counterpart is an error with the place and what to do, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reenact.policy.nearest import did_you_mean

__all__ = ["X07_TESTS", "X07_WORLDS", "entry_modules", "from_x07", "is_x07_manifest"]

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
        for path, message, hint in _mistakes(test, known)
    ]
    return {**raw, _VERSION: _OURS, "tests": [_converted(test, known) for test in tests]}, mistakes


def _converted(test: Any, known: frozenset[str]) -> Any:
    if not isinstance(test, dict):
        return test
    made = {name: test[name] for name in _KEPT if name in test}
    entry, world = test.get("entry"), test.get("world")
    if "entry" in test:
        made["entry"] = ":".join(entry.rsplit(".", 1)) if isinstance(entry, str) else entry
    if isinstance(world, str):
        made["world"] = world if world in known else X07_WORLDS.get(world, world)
    return made


def _mistakes(test: dict[str, Any], known: frozenset[str]) -> Iterator[_Mistake]:
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
    yield from _of_world(test, known)


def _of_world(test: dict[str, Any], known: frozenset[str]) -> Iterator[_Mistake]:
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
