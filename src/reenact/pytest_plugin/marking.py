"""The arguments of ``@pytest.mark.reenact(…)``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from reenact.policy.model import Ignore
from reenact.policy.nearest import did_you_mean
from reenact.pytest_plugin.options import MODES
from reenact.pytest_plugin.wanted import Wanted

__all__ = ["SCOPES", "marked", "scope_of"]

MARKER: Final = "reenact"
SCOPES: Final = ("function", "class", "module")
_MATCHES: Final = ("lane", "transcript", "lookup")
_IGNORED: Final = ("paths", "headers", "query")

_KINDS: Final[dict[str, tuple[type, ...]]] = {
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
_CHOICES: Final = {"mode": MODES, "match": _MATCHES, "scope": SCOPES}


def marked(item: pytest.Item) -> Wanted | None:
    """What the marker asks for; None where there is none. One that is nearer to the test has the
    say about each argument that it names. Raises :class:`pytest.UsageError`."""
    said = _said(item)
    if said is None:
        return None
    said.pop("scope", None)
    if "fixture_root" in said:
        said["fixture_root"] = str(said["fixture_root"])
    if "allow" in said:
        names = said["allow"]
        said["allow"] = (names,) if isinstance(names, str) else tuple(map(str, names))
    if isinstance(said.get("ignore"), dict):
        said["ignore"] = Ignore(**said["ignore"])
    return Wanted(**said)


def scope_of(item: pytest.Item) -> str:
    """Whose tests have one cassette together: ``function``, ``class`` or ``module``."""
    return str((_said(item) or {}).get("scope", "function"))


def _said(item: pytest.Item) -> dict[str, Any] | None:
    markers = list(item.iter_markers(MARKER))
    if not markers:
        return None
    said: dict[str, Any] = {}
    for marker in reversed(markers):
        said.update(_checked(item, marker))
    return {name: value for name, value in said.items() if value is not None}


def _checked(item: pytest.Item, marker: pytest.Mark) -> Mapping[str, Any]:
    given = dict(marker.kwargs)
    if len(marker.args) > 1 or (marker.args and "cassette" in given):
        raise _wrong(item, "takes one name without a keyword, that of the cassette")
    if marker.args:
        given["cassette"] = marker.args[0]
    for name, value in given.items():
        if name not in _KINDS:
            raise _wrong(item, f"has no argument {name!r}: {did_you_mean(name, _KINDS)}")
        if value is not None:
            _check(item, name, value)
    return given


def _check(item: pytest.Item, name: str, value: Any) -> None:
    kinds = _KINDS[name]
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise _wrong(item, f"wants {wanted} for {name}, not {value!r}")
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise _wrong(item, f"has no {name} {value!r}: {did_you_mean(str(value), choices)}")
    if isinstance(value, dict) and (unknown := set(value).difference(_IGNORED)):
        name = sorted(map(str, unknown))[0]
        raise _wrong(item, f"has nothing {name!r} to ignore: {did_you_mean(name, _IGNORED)}")


def _wrong(item: pytest.Item, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{item.nodeid}: the marker reenact {why}")
