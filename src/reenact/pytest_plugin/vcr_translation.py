"""Translation of ``vcr`` markers, settings and cassettes to Reenact."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact._version import __version__
from reenact.format.canonical import digest_bytes
from reenact.interop.exporter import give
from reenact.interop.formats import format_named, read_content
from reenact.interop.importer import TAPE, Origin, policy_of, take
from reenact.interop.model import Found
from reenact.policy.model import Ignore, Pinned
from reenact.policy.paths import find_root
from reenact.policy.redaction.redactor import Redactor
from reenact.pytest_plugin.cassette_marker import CassetteRequest
from reenact.pytest_plugin.vcr import RECORD_MODES
from reenact.pytest_plugin.vcr_fixtures import default_name
from reenact.store.reader import open_recording

__all__ = [
    "CassettePaths",
    "VcrSettings",
    "VcrWarning",
    "cassette_request",
    "empty_request",
    "empty_tape",
    "expected_request",
    "mode_and_tape",
    "replayed_tape",
    "translate_settings",
    "warn_once",
    "written_tape",
]

_LONGEST_NAME = 255
_MODES = {"all": "rewrite", "rewrite": "rewrite", "new_episodes": "record_missing"}


def expected_request(item: pytest.Item) -> CassetteRequest:
    """Return a request with the default path of the cassette, for a test that is not set up yet."""
    name = default_name(getattr(item, "cls", None), item.name)
    folder = item.path.parent / "cassettes" / item.path.stem
    return CassetteRequest(
        tape=folder / f"{name}{TAPE}", mode="replay", only="network", unused="allow"
    )


def empty_request(item: pytest.Item) -> CassetteRequest:
    """Return the request of a test without network access, which replays an empty cassette."""
    if _allowed_hosts(item):
        warn_once(item, "allowed_hosts", "no host is let through")
    return CassetteRequest(
        tape=empty_tape(item.config), mode="replay", only="network", unused="allow"
    )


def _allowed_hosts(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("block_network")
    hosts = marker is not None and marker.kwargs.get("allowed_hosts")
    return bool(hosts or item.config.getoption("allowed_hosts"))


def cassette_request(item: pytest.Item) -> CassetteRequest:
    """Return the request of a test with the marker."""
    markers = list(item.iter_markers(name="vcr"))
    config = dict(_fixture(item, "vcr_config"))
    for marker in reversed(markers):
        config.update(marker.kwargs)
    places = _cassette_paths(item, markers, config)
    mode, tape = mode_and_tape(item.config, _record_mode(item, config), places)
    return _wanted(translate_settings(item, config, writes=mode != "replay"), mode, tape)


def _wanted(found: VcrSettings, mode: str, tape: Path) -> CassetteRequest:
    return CassetteRequest(
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
    """Return the record mode: command line, marker or ``vcr_config``, then the fixture.

    Raises :class:`pytest.UsageError` for an unknown mode.
    """
    value = item.config.getoption("record_mode") or config.get("record_mode")
    value = value or _fixture(item, "record_mode")
    name = str(getattr(value, "value", value))
    if name not in RECORD_MODES:
        raise pytest.UsageError(
            f"unknown record mode {name[:64]!r}: one of {', '.join(RECORD_MODES)}"
        )
    return name


def mode_and_tape(
    config: pytest.Config, record_mode: str, places: CassettePaths
) -> tuple[str, Path]:
    """Return the mode and its tape. ``--reenact-mode`` takes precedence over ``record_mode``."""
    ours = _MODES.get(record_mode, "replay")
    if record_mode == "once" and not places.exist():
        ours = "record"
    mode = config.getoption("reenact_mode", None) or ours
    if mode in ("record", "rewrite"):
        return mode, places.tape
    if mode in ("record_missing", "update"):
        return mode, written_tape(config, places)
    return ours, replayed_tape(config, places)


def _cassette_paths(
    item: pytest.Item, markers: list[pytest.Mark], config: dict[str, Any]
) -> CassettePaths:
    folder = Path(config.get("cassette_library_dir") or _fixture(item, "vcr_cassette_dir"))
    suffix = f".{config.get('serializer', 'yaml')}"
    name = _bounded(_name(item), suffix)
    name = name if name.endswith(suffix) else name + suffix
    more = [_cassette_file(folder, str(given)) for marker in markers for given in marker.args]
    return CassettePaths(_cassette_file(folder, name), tuple(dict.fromkeys(more)))


def _name(item: pytest.Item) -> str:
    """Return the cassette name from a fixture of the project, also one of pytest-vcr."""
    request: Any = item._request  # type: ignore[attr-defined]  # of a function
    for name in ("vcr_cassette_path", "vcr_cassette_name"):
        if request._fixturemanager.getfixturedefs(name, item):
            return str(_fixture(item, name))
    return str(_fixture(item, "default_cassette_name"))


def _bounded(name: str, suffix: str) -> str:
    """Return a file name of limited length, shortened as pytest-recording does."""
    if len(name) + len(suffix) <= _LONGEST_NAME or "/" in name:
        return name
    digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[: _LONGEST_NAME - len(suffix) - len(digest) - 3]}...{digest}"


def _cassette_file(folder: Path, name: str) -> Path:
    return folder / name  # an absolute name replaces the folder


_DEFAULT_MATCH = ("method", "scheme", "host", "port", "path", "query")
_URL = frozenset({"scheme", "host", "port", "path", "query"})
_WHOLE_URL = frozenset({"uri", "url"})
_BODY = frozenset({"body", "raw_body"})
_LOCAL = ("localhost", "0.0.0.0", "127.0.0.1", "::1")
_FILTERS = ("filter_headers", "filter_query_parameters", "filter_post_data_parameters")

_HONOURED = frozenset(
    {
        *_FILTERS,
        "filter_nested_post_data_parameters",
        "match_on",
        "ignore_hosts",
        "ignore_localhost",
        "record_mode",
        "serializer",
        "cassette_library_dir",
        "decode_compressed_response",
    }
)
"""Supported settings.

``decode_compressed_response`` needs no action, because a compressed body is stored unchanged and
the client decodes it.
"""

_HARMLESS = frozenset({"cookie", "set-cookie", "user-agent", "host", "date", "accept"})
"""Filtered names that need no warning, because they are always redacted or irrelevant."""

_WHY = {
    "allowed_hosts": "no host is let through",
    "allow_playback_repeats": "a recorded call answers one call",
    "before_record_request": "secrets are redacted by rules: see policies and sanitizers",
    "before_record_response": "secrets are redacted by rules: see policies and sanitizers",
    "before_record": "secrets are redacted by rules: see policies and sanitizers",
    "filter_sensitive_data": "declare the values in a sanitizer (declaredEnv)",
}


class VcrSettings(msgspec.Struct, frozen=True):
    """Translated settings.

    ``ignore`` are the parts of a request that are not compared. ``pass_hosts`` are hosts whose
    calls are live and not recorded.
    """

    ignore: Ignore
    pass_hosts: tuple[str, ...] = ()


def translate_settings(item: pytest.Item, config: dict[str, Any], *, writes: bool) -> VcrSettings:
    """Translate ``config``.

    Warns once about each unsupported setting, and with ``writes`` about filtered names that would
    be recorded.
    """
    for name in config.keys() - _HONOURED:
        if config[name]:
            warn_once(item, name, _WHY.get(name, "there is nothing like it here"))
    if writes:
        _check_names(item, config)
    match_on = {str(name) for name in config.get("match_on") or _DEFAULT_MATCH}
    paths = [*_ignored(item, match_on), *_body_paths(config)]
    query = _names(config.get("filter_query_parameters"))
    return VcrSettings(Ignore(paths=tuple(paths), query=tuple(query)), _hosts(item, config))


def _ignored(item: pytest.Item, match_on: set[str]) -> list[str]:
    """Return the paths of a request that ``match_on`` does not compare.

    Warns about matchers that Reenact does not have.
    """
    paths = []
    if not match_on & _BODY:
        paths += ["$.request.body", "$.request.type"]
    if "method" not in match_on:
        paths += ["$.op", "$.request.method"]
    if not match_on & (_URL | _WHOLE_URL):
        paths.append("$.request.url")
    elif not match_on & _WHOLE_URL and (left := _URL - match_on):
        named = ", ".join(sorted(left))
        warn_once(item, f"match_on without {named}", "the complete URL is compared")
    for name in sorted(match_on - _URL - _WHOLE_URL - _BODY - {"method"}):
        warn_once(item, f"match_on {name}", "headers that count are named in a policy (keyHeaders)")
    return paths


def _body_paths(config: dict[str, Any]) -> list[str]:
    deep = ".." if config.get("filter_nested_post_data_parameters") else ""
    names = _names(config.get("filter_post_data_parameters"))
    return [f"$.request.body{deep}['{_quoted(name)}']" for name in names]


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def _names(given: Iterable[Any] | None) -> list[str]:
    """Return the names of a filter, without their replacements."""
    return [str(one[0]) if isinstance(one, tuple) else str(one) for one in given or ()]


def _check_names(item: pytest.Item, config: dict[str, Any]) -> None:
    """Warn about names that vcrpy would filter and Reenact would record."""
    redactor = Redactor()
    for kind in _FILTERS:
        for name in _names(config.get(kind)):
            if not redactor.hides(name) and name.lower() not in _HARMLESS:
                why = "a recording would have it: name it under secretNames in a sanitizer"
                warn_once(item, f"{kind} {name}", why)


def _hosts(item: pytest.Item, config: dict[str, Any]) -> tuple[str, ...]:
    hosts = list(config.get("ignore_hosts") or ())
    if config.get("ignore_localhost"):
        hosts += _LOCAL
    for host in hosts:
        if not isinstance(host, str):
            warn_once(item, "ignore_hosts with a pattern", "name the hosts themselves")
    return tuple(dict.fromkeys(host for host in hosts if isinstance(host, str)))


_FOLDER = "reenact-vcr"
_NAME = f"cassette{TAPE}"
_OWN = pytest.StashKey[Path]()


class CassettePaths(msgspec.Struct, frozen=True):
    """Paths of the cassettes of a test.

    ``cassette`` is the file that pytest-recording would write. ``more`` are further files to read.
    """

    cassette: Path
    more: tuple[Path, ...] = ()

    @property
    def tape(self) -> Path:
        """Return the tape with the same name next to the cassette."""
        return _twin(self.cassette)

    def sources(self) -> list[Path]:
        """Return the existing tape of each cassette, or the cassette itself."""
        found = []
        for path in (self.cassette, *self.more):
            if (twin := _twin(path)).exists():
                found.append(twin)
            elif path.exists():
                found.append(path)
        return found

    def exist(self) -> bool:
        return bool(self.sources())


def _twin(path: Path) -> Path:
    return path if path.suffix == TAPE else path.with_suffix(TAPE)


def replayed_tape(config: pytest.Config, places: CassettePaths) -> Path:
    """Return the tape to replay, imported if necessary.

    Without a cassette, it is the path of a missing tape.
    """
    sources = places.sources()
    if not sources:
        return places.tape
    if len(sources) == 1 and sources[0].suffix == TAPE:
        return sources[0]
    return _cached(config, sources)


def written_tape(config: pytest.Config, places: CassettePaths) -> Path:
    """Return the tape next to the cassette.

    A missing one is created from the existing cassettes.
    """
    sources = places.sources()
    if sources and not places.tape.exists():
        _import(sources, places.tape, _policy(config))
    return places.tape


def empty_tape(config: pytest.Config) -> Path:
    """Return a tape without calls."""
    return _cached(config, [])


def _cached(config: pytest.Config, sources: list[Path]) -> Path:
    """Return an imported tape from the cache, by content. Workers can call it at the same time."""
    pinned = _policy(config)
    parts = [__version__, pinned.digest, *(digest_bytes(one.read_bytes()) for one in sources)]
    folder = _cache(config)
    target = folder / digest_bytes("\n".join(parts).encode()).removeprefix("sha256:")[:32]
    if not (target / _NAME).exists():
        made = Path(tempfile.mkdtemp(dir=folder))
        try:
            _import(sources, made / _NAME, pinned)
            made.rename(target)
        except OSError:
            if not (target / _NAME).exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target / _NAME


def _cache(config: pytest.Config) -> Path:
    """Return a folder in pytest's cache, or else a temporary folder of this run."""
    cache: Any = getattr(config, "cache", None)
    if cache is not None:
        return Path(cache.mkdir(_FOLDER))
    if _OWN not in config.stash:
        config.stash[_OWN] = Path(tempfile.mkdtemp(prefix=_FOLDER))
        config.add_cleanup(lambda: shutil.rmtree(config.stash[_OWN], ignore_errors=True))
    return config.stash[_OWN]


def _policy(config: pytest.Config) -> Pinned:
    return policy_of(find_root(config.rootpath, os.environ))


def _import(sources: list[Path], target: Path, pinned: Pinned) -> None:
    """Import all ``sources`` into one tape, with the redaction profile of the policy."""
    whole = Found()
    content = b""
    for path in sources:
        whole.items += _read(path).items
        content += path.read_bytes()
    profile = pinned.policy.redaction or "default"
    take(whole, target, Origin("vcr", content), pinned=pinned, redaction=profile)


def _read(path: Path) -> Found:
    if path.suffix == TAPE:
        with open_recording(path) as source:
            return give(source)
    one = format_named("vcr-json" if path.suffix == ".json" else "vcr")
    return read_content(one, path.read_bytes(), str(path))


_WARNED = pytest.StashKey[set[str]]()


class VcrWarning(pytest.PytestWarning):
    """Warning about a setting of vcrpy that Reenact does not support."""


def warn_once(item: pytest.Item, name: str, why: str) -> None:
    """Warn once per run that ``name`` is not supported."""
    warned = item.config.stash.setdefault(_WARNED, set())
    if name not in warned:
        warned.add(name)
        item.warn(VcrWarning(f"{name} is not honoured by reenact_vcr: {why}"))
