"""Recordings in a store that speaks S3: found, and got."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from reenact.errors import RecordingDamaged, RecordingMissing, UsageError
from reenact.runs.afar.naming import (
    PACKED,
    TAPE,
    Object,
    capture_members,
    grouped,
    tape_members,
    version_of,
)
from reenact.runs.afar.objects import Bucket, open_bucket
from reenact.runs.afar.place import RECORDING, Remote
from reenact.store.pack import unpack
from reenact.store.verify import verify

__all__ = ["Objects", "find_objects"]

_SCHEME: Final = "s3://"
_TAPE: Final = b'"format":{"name":"reenact"'
_HEADER: Final = 4_096
_AT_ONCE: Final = 16


class _Spot(NamedTuple):
    bucket: str
    key: str
    """May be empty, or that of what is like a folder."""


def _spot(name: str) -> _Spot:
    bucket, _, key = name.removeprefix(_SCHEME).partition("/")
    if not bucket or not name.startswith(_SCHEME):
        raise UsageError(f"{name} names no bucket", hint="say s3://bucket or s3://bucket/prefix")
    return _Spot(bucket, key.strip("/"))


def find_objects(name: str, settings: Mapping[str, str]) -> list[Remote]:
    """The recordings at or under ``s3://bucket/prefix``, in the order of their names.

    Nothing is read but names and, of what might be a tape, its beginning. Raises
    :class:`RecordingMissing` when there is none, :class:`ServerRefused`, :class:`ServerUnusable`,
    :class:`UsageError`.
    """
    spot = _spot(name)
    bucket = open_bucket(spot.bucket, settings)
    if spot.key.endswith((PACKED, TAPE)):
        return [_remote(spot.bucket, spot.key, _objects(bucket, spot.key))]
    groups = grouped(bucket.under(spot.key))
    tapes = [key for key in groups if key.endswith(TAPE)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checked = pool.map(lambda key: _TAPE in bucket.start(key, _HEADER), tapes)
        other = {key for key, is_tape in zip(tapes, checked, strict=True) if not is_tape}
    found = [_remote(spot.bucket, key, some) for key, some in groups.items() if key not in other]
    if not found:
        raise RecordingMissing(
            f"there is no recording under {name}",
            hint="put some there: folders of reenact run, or what reenact pack makes of them",
        )
    return found


def _remote(bucket: str, key: str, objects: list[Object]) -> Remote:
    return Remote(
        keeper="s3", name=f"{_SCHEME}{bucket}/{key}".rstrip("/"), version=version_of(objects)
    )


def _objects(bucket: Bucket, key: str) -> list[Object]:
    """Those of one recording."""
    if key.endswith(PACKED):
        return [bucket.at(key)]
    if not key.endswith(TAPE):
        return capture_members(key, bucket.under(key))
    found = [bucket.at(key), *tape_members(key, bucket.under(f"{key}.blobs"))]
    try:
        found.append(bucket.at(f"{key}.sig"))
    except RecordingMissing:
        pass  # most have none
    return found


class Objects:
    """A library."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._buckets: dict[str, Bucket] = {}

    def __repr__(self) -> str:
        return "Objects()"

    def fetch(self, remote: Remote, folder: Path) -> None:
        """See :class:`Library`."""
        spot = _spot(remote.name)
        bucket = self._buckets.get(spot.bucket)
        if bucket is None:
            bucket = self._buckets[spot.bucket] = open_bucket(spot.bucket, self._settings)
        found = _objects(bucket, spot.key)
        if not found:
            raise RecordingMissing(
                f"{remote.name} is not there any more", hint="run it again: it is listed anew"
            )
        if version_of(found) != remote.version:
            raise RecordingDamaged(
                f"{remote.name} is not what was listed",
                place=f"object {spot.key}",
                hint="somebody wrote to it meanwhile; run it again",
            )
        _write(bucket, spot.key, found, folder / RECORDING)


def _write(bucket: Bucket, key: str, found: list[Object], target: Path) -> None:
    if key.endswith(PACKED):
        packed = target.with_name("packed")
        bucket.download(found[0], packed)
        unpack(packed, target)
        packed.unlink()
        return
    for one in found:
        inside = one.key.removeprefix(key) if key else f"/{one.key}"
        bucket.download(one, Path(f"{target}{inside}"))
    verify(target)
