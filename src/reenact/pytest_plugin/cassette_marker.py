"""Cassette requests of tests, from markers, fixtures and other plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from reenact.pytest_plugin import vcr

if TYPE_CHECKING:
    from reenact.policy.model import Ignore

__all__ = [
    "CASSETTE_TESTS",
    "FIXTURE",
    "MODES",
    "SCOPES",
    "CassetteRequest",
    "argument_types",
    "has_fixtures",
    "marker_request",
    "request_of",
    "requests_cassette",
    "scope_of",
]


# A dataclass, because pytest has imported that module already. msgspec would be an additional
# import in every test run.
@dataclass(frozen=True, kw_only=True)
class CassetteRequest:
    """Cassette request of a test.

    ``None`` selects the value of the command line, the settings or the policy.
    """

    cassette: str | None = None
    """Name below the folder of cassettes. By default it is derived from the name of the test."""
    tape: Path | None = None
    """Path of the tape, for the marker of a different tool."""
    policy: str | None = None
    mode: str | None = None
    strict: bool | None = None
    match: Literal["lane", "transcript", "lookup"] | None = None
    ignore: Ignore | None = None
    unused: Literal["error", "warn", "allow"] | None = None
    """Treatment of unused recorded calls. None follows the strictness."""
    pass_hosts: tuple[str, ...] = ()
    """Hosts whose calls are live in every mode and not recorded."""
    allow: tuple[str, ...] = ()
    """Boundaries and drivers whose calls are live and not recorded."""
    fixture_root: str | None = None
    only: str | None = None
    """``network`` records only HTTP and websockets."""


CASSETTE_TESTS: pytest.StashKey[dict[str, list[str]]] = pytest.StashKey()
"""IDs of the tests of each cassette, by the key of the cassette."""

MODES: Final = ("auto", "record", "replay", "record_missing", "update", "rewrite", "off")
"""``auto`` replays existing cassettes and records missing ones, except in CI."""

MARKER: Final = "reenact"
SCOPES: Final = ("function", "class", "module")
_MATCHES: Final = ("lane", "transcript", "lookup")
_IGNORED: Final = ("paths", "headers", "query")

_CHOICES: Final = {"mode": MODES, "match": _MATCHES, "scope": SCOPES}


def marker_request(item: pytest.Item) -> CassetteRequest | None:
    """Return the request of the marker; None without a marker.

    The closest marker takes precedence for each argument. Raises :class:`pytest.UsageError`.
    """
    from reenact.policy.model import Ignore

    arguments = _arguments(item)
    if arguments is None:
        return None
    arguments.pop("scope", None)
    if "fixture_root" in arguments:
        arguments["fixture_root"] = str(arguments["fixture_root"])
    if "allow" in arguments:
        names = arguments["allow"]
        arguments["allow"] = (names,) if isinstance(names, str) else tuple(map(str, names))
    if isinstance(arguments.get("ignore"), dict):
        arguments["ignore"] = Ignore(**arguments["ignore"])
    return CassetteRequest(**arguments)


def scope_of(item: pytest.Item) -> str:
    """Return the scope of the cassette: ``function``, ``class`` or ``module``."""
    return str((_arguments(item) or {}).get("scope", "function"))


def _arguments(item: pytest.Item) -> dict[str, Any] | None:
    markers = list(item.iter_markers(MARKER))
    if not markers:
        return None
    arguments: dict[str, Any] = {}
    for marker in reversed(markers):
        arguments.update(_checked(item, marker))
    return {name: value for name, value in arguments.items() if value is not None}


def _checked(item: pytest.Item, marker: pytest.Mark) -> Mapping[str, Any]:
    given = dict(marker.kwargs)
    if len(marker.args) > 1 or (marker.args and "cassette" in given):
        raise _invalid_marker(item, "takes one positional argument, the name of the cassette")
    if marker.args:
        given["cassette"] = marker.args[0]
    for name, value in given.items():
        if name not in argument_types():
            from reenact.errors import did_you_mean

            raise _invalid_marker(
                item, f"has no argument {name!r}: {did_you_mean(name, argument_types())}"
            )
        if value is not None:
            _check(item, name, value)
    return given


def argument_types() -> Mapping[str, tuple[type, ...]]:
    """Return the types allowed for each argument of the marker."""
    from reenact.policy.model import Ignore

    return {
        "cassette": (str,),
        "policy": (str,),
        "mode": (str,),
        "strict": (bool,),
        "match": (str,),
        "ignore": (Ignore, dict),
        "fixture_root": (str, Path),
        "only": (str,),
        "allow": (str, list, tuple),
        "scope": (str,),
    }


def _check(item: pytest.Item, name: str, value: Any) -> None:
    from reenact.errors import did_you_mean

    kinds = argument_types()[name]
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise _invalid_marker(item, f"wants {expected} for {name}, not {value!r}")
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise _invalid_marker(item, f"has no {name} {value!r}: {did_you_mean(str(value), choices)}")
    if isinstance(value, dict) and (unknown := set(value).difference(_IGNORED)):
        name = sorted(map(str, unknown))[0]
        raise _invalid_marker(
            item, f"has nothing {name!r} to ignore: {did_you_mean(name, _IGNORED)}"
        )


def _invalid_marker(item: pytest.Item, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{item.nodeid}: the marker reenact {why}")


FIXTURE = "reenact_session"


def has_fixtures(item: pytest.Item) -> bool:
    """Return True if pytest sets up fixtures for the item, as it does for Python functions."""
    return isinstance(item, pytest.Function)


def requests_cassette(item: pytest.Item) -> bool:
    """Return True if the test has a cassette.

    It is called for every test, so it must be cheap.
    """
    if getattr(item, "reenact_request", None) is not None:
        return True
    if not has_fixtures(item):
        return False
    if item.get_closest_marker("reenact") is not None or FIXTURE in _names(item):
        return True
    return vcr.requests_cassette(item)


def _names(item: pytest.Item) -> list[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    return names


def request_of(item: pytest.Item) -> CassetteRequest:
    """Return the request of the test. Raises :class:`pytest.UsageError` for an invalid marker."""
    carried: CassetteRequest | None = getattr(item, "reenact_request", None)
    return carried or marker_request(item) or vcr.request_of(item) or CassetteRequest()
