"""Cassettes of pytest-recording as tapes: the migrated one beside it, or one that is made here.

A cassette that is only replayed is imported into pytest's cache, where nobody checks it in; one
that is added to gets its tape beside it. The original is never changed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
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
from reenact.policy.model import Pinned
from reenact.policy.paths import find_root
from reenact.store.reader import open_recording

__all__ = ["Places", "empty_tape", "replayed_tape", "written_tape"]

_FOLDER = "reenact-vcr"
_NAME = f"cassette{TAPE}"
_OWN = pytest.StashKey[Path]()


class Places(msgspec.Struct, frozen=True):
    """``cassette`` is the one that pytest-recording writes; ``more`` are read besides."""

    cassette: Path
    more: tuple[Path, ...] = ()

    @property
    def tape(self) -> Path:
        """Beside it, with the same name."""
        return _twin(self.cassette)

    def sources(self) -> list[Path]:
        """What is there to be read: of each its tape, else the cassette itself."""
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


def replayed_tape(config: pytest.Config, places: Places) -> Path:
    """The tape to replay. Where there is nothing, the place where one would be."""
    sources = places.sources()
    if not sources:
        return places.tape
    if len(sources) == 1 and sources[0].suffix == TAPE:
        return sources[0]
    return _cached(config, sources)


def written_tape(config: pytest.Config, places: Places) -> Path:
    """The tape beside the cassette, which is made of what is there before it is added to."""
    sources = places.sources()
    if sources and not places.tape.exists():
        _import(sources, places.tape, _policy(config))
    return places.tape


def empty_tape(config: pytest.Config) -> Path:
    """A tape without a call."""
    return _cached(config, [])


def _cached(config: pytest.Config, sources: list[Path]) -> Path:
    """What was imported before is found by its contents. Workers may come here at once."""
    pinned = _policy(config)
    said = [__version__, pinned.digest, *(digest_bytes(one.read_bytes()) for one in sources)]
    folder = _cache(config)
    place = folder / digest_bytes("\n".join(said).encode()).removeprefix("sha256:")[:32]
    if not (place / _NAME).exists():
        made = Path(tempfile.mkdtemp(dir=folder))
        try:
            _import(sources, made / _NAME, pinned)
            made.rename(place)
        except OSError:
            if not (place / _NAME).exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return place / _NAME


def _cache(config: pytest.Config) -> Path:
    """pytest's own cache; without one, a folder of this run."""
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
    """All of ``sources`` onto one tape. What the cache holds is not shared, so CI is no reason to
    hide more than elsewhere."""
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
