"""Which objects of a store are recordings, by their keys alone.

runs/1/manifest.json, events.jsonl, blobs/…     a capture, as ``aws s3 sync`` leaves it
runs/2.reenact                                  a packed one: reenact pack
runs/3.jsonl, 3.jsonl.blobs/…, 3.jsonl.sig      a tape
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from reenact.store.directory.layout import BLOBS, EVENTS, MANIFEST, SIGNATURE

__all__ = ["PACKED", "TAPE", "Object", "capture_members", "grouped", "tape_members", "version_of"]

PACKED, TAPE = ".reenact", ".jsonl"
_TAPE_BLOBS, _TAPE_SIGNATURE = f"{TAPE}.blobs", f"{TAPE}.sig"
_PARTS = frozenset({MANIFEST, EVENTS, SIGNATURE})
_TAPE_PARTS = frozenset({"", ".sig"})


class Object(NamedTuple):
    """``tag`` is another one for other content."""

    key: str
    size: int
    tag: str


def grouped(objects: Iterable[Object]) -> dict[str, list[Object]]:
    """The objects of each recording, by its key, in the order of keys. What stands inside a capture
    is none of its own. Whether a ``.jsonl`` is a tape only its content tells."""
    found = sorted(objects)
    folders = {_folder(one.key) for one in found if _name(one.key) in (MANIFEST, EVENTS)}
    groups: dict[str, list[Object]] = {}
    for one in found:
        owner = _owner(one.key, folders)
        if owner is not None:
            groups.setdefault(owner, []).append(one)
    made = {
        key: capture_members(key, some) if key in folders else tape_members(key, some)
        for key, some in sorted(groups.items())
    }
    return {key: some for key, some in made.items() if key in folders or _has(key, some)}


def _has(key: str, objects: list[Object]) -> bool:
    """Is it there itself, and not only what belongs to it?"""
    return any(one.key == key and one.size for one in objects)


def capture_members(folder: str, objects: Iterable[Object]) -> list[Object]:
    """Those that make up a capture; sealed values and the like stay where they are."""
    start = f"{folder}/" if folder else ""
    return sorted(one for one in objects if _is_member(one.key, start, _PARTS, f"{BLOBS}/"))


def tape_members(key: str, objects: Iterable[Object]) -> list[Object]:
    """Those that make up a tape: itself, its signature, its blobs. Of a packed one, itself."""
    return sorted(one for one in objects if _is_member(one.key, key, _TAPE_PARTS, ".blobs/"))


def _is_member(key: str, start: str, parts: frozenset[str], blobs: str) -> bool:
    inside = key.removeprefix(start)
    if inside in parts:
        return True
    folder, slash, name = inside.removeprefix(blobs).partition("/")
    plain = folder.isalnum() and name.isalnum()
    return inside.startswith(blobs) and bool(slash) and plain


def version_of(objects: Iterable[Object]) -> str:
    """Another one when any of them is."""
    return sha256(repr([tuple(one) for one in sorted(objects)]).encode()).hexdigest()


def _owner(key: str, folders: set[str]) -> str | None:
    parts = PurePosixPath(key).parts
    for depth in range(len(parts)):
        above = "/".join(parts[:depth])
        if above in folders:
            return above
        if above.endswith(_TAPE_BLOBS):
            return above.removesuffix(".blobs")
    if key.endswith(_TAPE_SIGNATURE):
        return key.removesuffix(".sig")
    return key if key.endswith((PACKED, TAPE)) else None


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
