"""What a test that is marked ``vcr`` wants, in our words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from reenact.interop.importer import TAPE
from reenact.pytest_plugin.vcr import RECORD_MODES
from reenact.pytest_plugin.vcr_cassettes import Places, empty_tape, replayed_tape, written_tape
from reenact.pytest_plugin.vcr_config import Translated, translated
from reenact.pytest_plugin.vcr_fixtures import default_name
from reenact.pytest_plugin.vcr_warning import warn_once
from reenact.pytest_plugin.wanted import Wanted

__all__ = ["cassette_wanted", "expected", "mode_and_tape", "nothing_wanted"]

_LONGEST_NAME = 255
_MODES = {"all": "rewrite", "rewrite": "rewrite", "new_episodes": "record_missing"}


def expected(item: pytest.Item) -> Wanted:
    """Where the cassette is, unless fixtures say otherwise."""
    name = default_name(getattr(item, "cls", None), item.name)
    folder = item.path.parent / "cassettes" / item.path.stem
    return Wanted(tape=folder / f"{name}{TAPE}", mode="replay", only="network", unused="allow")


def nothing_wanted(item: pytest.Item) -> Wanted:
    """A test that may not reach the network: it replays a cassette without a call."""
    if _allowed_hosts(item):
        warn_once(item, "allowed_hosts", "no host is let through")
    return Wanted(tape=empty_tape(item.config), mode="replay", only="network", unused="allow")


def _allowed_hosts(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("block_network")
    said = marker is not None and marker.kwargs.get("allowed_hosts")
    return bool(said or item.config.getoption("allowed_hosts"))


def cassette_wanted(item: pytest.Item) -> Wanted:
    """Its cassette, and how it is used."""
    markers = list(item.iter_markers(name="vcr"))
    config = dict(_fixture(item, "vcr_config"))
    for marker in reversed(markers):
        config.update(marker.kwargs)
    places = _places(item, markers, config)
    mode, tape = mode_and_tape(item.config, _record_mode(item, config), places)
    return _wanted(translated(item, config, writes=mode != "replay"), mode, tape)


def _wanted(found: Translated, mode: str, tape: Path) -> Wanted:
    return Wanted(
        tape=tape,
        mode=mode,
        match="lookup",
        ignore=found.ignore,
        unused="allow",
        only="network",
        pass_hosts=found.pass_hosts,
    )


def _fixture(item: pytest.Item, name: str) -> Any:
    request: pytest.FixtureRequest = item._request  # type: ignore[attr-defined]  # of a function
    return request.getfixturevalue(name)


def _record_mode(item: pytest.Item, config: dict[str, Any]) -> str:
    """The command line before the marker and ``vcr_config``; otherwise nothing is recorded."""
    said = item.config.getoption("record_mode") or config.get("record_mode")
    said = said or _fixture(item, "record_mode")
    name = str(getattr(said, "value", said))
    if name not in RECORD_MODES:
        raise pytest.UsageError(
            f"there is no record mode {name[:64]!r}: one of {', '.join(RECORD_MODES)}"
        )
    return name


def mode_and_tape(config: pytest.Config, record_mode: str, places: Places) -> tuple[str, Path]:
    """Our mode, and the tape that it reads and writes. What ``--reenact-mode`` says counts more."""
    ours = _MODES.get(record_mode, "replay")
    if record_mode == "once" and not places.exist():
        ours = "record"
    mode = config.getoption("reenact_mode", None) or ours
    if mode in ("record", "rewrite"):
        return mode, places.tape
    if mode in ("record_missing", "update"):
        return mode, written_tape(config, places)
    return ours, replayed_tape(config, places)


def _places(item: pytest.Item, markers: list[pytest.Mark], config: dict[str, Any]) -> Places:
    folder = Path(config.get("cassette_library_dir") or _fixture(item, "vcr_cassette_dir"))
    suffix = f".{config.get('serializer', 'yaml')}"
    name = _bounded(_name(item), suffix)
    name = name if name.endswith(suffix) else name + suffix
    more = [_place(folder, str(given)) for marker in markers for given in marker.args]
    return Places(_place(folder, name), tuple(dict.fromkeys(more)))


def _name(item: pytest.Item) -> str:
    """As the project's own fixtures say; some have those of pytest-vcr."""
    request: Any = item._request  # type: ignore[attr-defined]  # of a function
    for name in ("vcr_cassette_path", "vcr_cassette_name"):
        if request._fixturemanager.getfixturedefs(name, item):
            return str(_fixture(item, name))
    return str(_fixture(item, "default_cassette_name"))


def _bounded(name: str, suffix: str) -> str:
    """A name that a file may have, as pytest-recording shortens it."""
    if len(name) + len(suffix) <= _LONGEST_NAME or "/" in name:
        return name
    digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[: _LONGEST_NAME - len(suffix) - len(digest) - 3]}...{digest}"


def _place(folder: Path, name: str) -> Path:
    return folder / name  # an absolute name stays as it is
