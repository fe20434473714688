"""Recordings in an S3-compatible object store: discovery and download."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from reenact.errors import (
    ExtraMissing,
    RecordingDamaged,
    RecordingMissing,
    ReenactError,
    ServerRefused,
    ServerUnusable,
    UsageError,
)
from reenact.runs.remote.location import RECORDING, RemoteRecording
from reenact.store.files import BLOBS, EVENTS, MANIFEST, SIGNATURE
from reenact.store.pack import unpack
from reenact.store.verify import verify

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = [
    "PACKED",
    "SETTINGS",
    "TAPE",
    "Bucket",
    "BucketRecordings",
    "Object",
    "capture_members",
    "find_bucket_recordings",
    "group_by_recording",
    "open_bucket",
    "tape_members",
    "version_of",
]

_SCHEME: Final = "s3://"
_TAPE: Final = b'"format":{"name":"reenact"'
_HEADER: Final = 4_096
_AT_ONCE: Final = 16


class _BucketKey(NamedTuple):
    bucket: str
    key: str
    """Key of an object, or a prefix; can be empty."""


def _bucket_key(name: str) -> _BucketKey:
    bucket, _, key = name.removeprefix(_SCHEME).partition("/")
    if not bucket or not name.startswith(_SCHEME):
        raise UsageError(f"{name} has no bucket name", hint="use s3://bucket or s3://bucket/prefix")
    return _BucketKey(bucket, key.strip("/"))


def find_bucket_recordings(name: str, settings: Mapping[str, str]) -> list[RemoteRecording]:
    """Return the recordings at or under ``s3://bucket/prefix``, sorted by name.

    It reads the list of objects and the beginning of possible tapes. Raises
    :class:`RecordingMissing` if there is none, :class:`ServerRefused`, :class:`ServerUnusable` and
    :class:`UsageError`.
    """
    spot = _bucket_key(name)
    bucket = open_bucket(spot.bucket, settings)
    if spot.key.endswith((PACKED, TAPE)):
        return [_remote(spot.bucket, spot.key, _objects(bucket, spot.key))]
    groups = group_by_recording(bucket.under(spot.key))
    tapes = [key for key in groups if key.endswith(TAPE)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checked = pool.map(lambda key: _TAPE in bucket.start(key, _HEADER), tapes)
        other = {key for key, is_tape in zip(tapes, checked, strict=True) if not is_tape}
    found = [_remote(spot.bucket, key, some) for key, some in groups.items() if key not in other]
    if not found:
        raise RecordingMissing(
            f"no recording found under {name}",
            hint="upload recordings: folders of reenact run, or files of reenact pack",
        )
    return found


def _remote(bucket: str, key: str, objects: list[Object]) -> RemoteRecording:
    return RemoteRecording(
        keeper="s3", name=f"{_SCHEME}{bucket}/{key}".rstrip("/"), version=version_of(objects)
    )


def _objects(bucket: Bucket, key: str) -> list[Object]:
    """Return the objects of one recording."""
    if key.endswith(PACKED):
        return [bucket.at(key)]
    if not key.endswith(TAPE):
        return capture_members(key, bucket.under(key))
    found = [bucket.at(key), *tape_members(key, bucket.under(f"{key}.blobs"))]
    try:
        found.append(bucket.at(f"{key}.sig"))
    except RecordingMissing:
        pass  # most tapes have no signature
    return found


class BucketRecordings:
    """Store of recordings in S3 buckets: a :class:`reenact.runs.remote.location.RemoteStore`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._buckets: dict[str, Bucket] = {}

    def __repr__(self) -> str:
        return "BucketRecordings()"

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        """Download a recording into ``folder``.

        Raises :class:`RecordingDamaged` if it has changed.
        """
        spot = _bucket_key(remote.name)
        bucket = self._buckets.get(spot.bucket)
        if bucket is None:
            bucket = self._buckets[spot.bucket] = open_bucket(spot.bucket, self._settings)
        found = _objects(bucket, spot.key)
        if not found:
            raise RecordingMissing(
                f"{remote.name} no longer exists", hint="run the command again to list it again"
            )
        if version_of(found) != remote.version:
            raise RecordingDamaged(
                f"{remote.name} has changed since it was listed",
                place=f"object {spot.key}",
                hint="run the command again",
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


PACKED, TAPE = ".reenact", ".jsonl"
_TAPE_BLOBS, _TAPE_SIGNATURE = f"{TAPE}.blobs", f"{TAPE}.sig"
_PARTS = frozenset({MANIFEST, EVENTS, SIGNATURE})
_TAPE_PARTS = frozenset({"", ".sig"})


class Object(NamedTuple):
    """Object of a bucket. ``tag`` changes with the content."""

    key: str
    size: int
    tag: str


def group_by_recording(objects: Iterable[Object]) -> dict[str, list[Object]]:
    """Group objects by recording, sorted by key.

    Objects inside a capture belong to it. Every ``.jsonl`` object counts as a tape here; its
    content must be checked.
    """
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
    """Return True if the object with this key exists and is not empty."""
    return any(one.key == key and one.size for one in objects)


def capture_members(folder: str, objects: Iterable[Object]) -> list[Object]:
    """Return the objects that a capture consists of: manifest, events, signature and blobs."""
    start = f"{folder}/" if folder else ""
    return sorted(one for one in objects if _is_member(one.key, start, _PARTS, f"{BLOBS}/"))


def tape_members(key: str, objects: Iterable[Object]) -> list[Object]:
    """Return the objects of a tape: the file, its signature and its blobs.

    A packed recording is one object.
    """
    return sorted(one for one in objects if _is_member(one.key, key, _TAPE_PARTS, ".blobs/"))


def _is_member(key: str, start: str, parts: frozenset[str], blobs: str) -> bool:
    inside = key.removeprefix(start)
    if inside in parts:
        return True
    folder, slash, name = inside.removeprefix(blobs).partition("/")
    plain = folder.isalnum() and name.isalnum()
    return inside.startswith(blobs) and bool(slash) and plain


def version_of(objects: Iterable[Object]) -> str:
    """Return a digest that changes when any of the objects changes."""
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


SETTINGS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
)
"""Variables with the address and the credentials of a store."""
_PATIENCE: Final = timedelta(seconds=20)
_PAGE: Final = 1_000
_CHUNK: Final = 1 << 20
_WHY: Final = 200
_STATUS: Final = re.compile(r"status code: (\d{3})")


def open_bucket(name: str, settings: Mapping[str, str]) -> Bucket:
    """Return a bucket without sending a request. Raises :class:`UsageError`."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ModuleNotFoundError:
        raise ExtraMissing("reading recordings from S3", "s3") from None
    said = {one: settings[one] for one in SETTINGS if settings.get(one)}
    endpoint = said.pop("AWS_ENDPOINT_URL_S3", "") or said.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        said["AWS_ENDPOINT_URL"] = endpoint
    try:
        store = S3Store(
            name,
            config={one.lower(): value for one, value in said.items()},  # type: ignore[arg-type]
            client_options={"allow_http": endpoint.startswith("http://"), "timeout": "60s"},
            retry_config={"max_retries": 3, "retry_timeout": _PATIENCE},
        )
    except (BaseError, ValueError):
        raise UsageError(
            f"s3://{name} cannot be used with these settings",
            hint=f"check {', '.join(SETTINGS[:6])}",
        ) from None
    return Bucket(store, name)


class Bucket:
    """Content of a bucket. Errors are converted to Reenact's own and contain no credentials."""

    def __init__(self, store: S3Store, name: str) -> None:
        self._store, self._name = store, name

    def under(self, key: str) -> Iterator[Object]:
        """Yield the objects below the prefix ``key``, or all objects if it is empty."""
        import obstore

        with self._converting_errors(key):
            for batch in obstore.list(self._store, key or None, chunk_size=_PAGE):
                for one in batch:
                    yield Object(one["path"], one["size"], one.get("e_tag") or "")

    def at(self, key: str) -> Object:
        """Return one object. Raises :class:`RecordingMissing`."""
        import obstore

        with self._converting_errors(key):
            one = obstore.head(self._store, key)
            return Object(one["path"], one["size"], one.get("e_tag") or "")

    def start(self, key: str, size: int) -> bytes:
        """Return the first ``size`` bytes of an object that is not empty."""
        import obstore

        with self._converting_errors(key):
            return bytes(obstore.get_range(self._store, key, start=0, length=size))

    def download(self, found: Object, target: Path) -> None:
        """Write an object to a file.

        Raises :class:`RecordingDamaged` if it has changed since the listing.
        """
        import obstore

        options = {"if_match": found.tag} if found.tag else {}
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            with self._converting_errors(found.key):
                stream = obstore.get(self._store, found.key, options=options)  # type: ignore[arg-type]
                pieces = iter(stream.stream(min_chunk_size=_CHUNK))
            while True:
                with self._converting_errors(found.key):
                    piece = next(pieces, None)
                if piece is None:
                    break
                file.write(piece)
            written = file.tell()
        if written != found.size:
            raise self._changed(found.key)

    @contextlib.contextmanager
    def _converting_errors(self, key: str) -> Iterator[None]:
        from obstore import exceptions as theirs

        try:
            yield
        except (FileNotFoundError, theirs.NotFoundError):
            raise self._missing(key) from None
        except (theirs.PreconditionError, theirs.NotModifiedError):
            raise self._changed(key) from None
        except (theirs.PermissionDeniedError, theirs.UnauthenticatedError, PermissionError):
            raise self._refused(key) from None
        except (theirs.BaseError, OSError) as error:
            raise self._otherwise(key, error) from None

    def _otherwise(self, key: str, error: Exception) -> ReenactError:
        """Convert any other error. Errors of a listing contain the status only in their text."""
        status = _STATUS.search(str(error))
        if status is not None and status[1] == "404":
            return self._missing(key)
        if status is not None and status[1] in ("401", "403"):
            return self._refused(key)
        return ServerUnusable(
            f"{self._named(key)} cannot be asked for: {_reason(error)}",
            hint="is the store running? check AWS_ENDPOINT_URL and AWS_REGION",
        )

    def _named(self, key: str) -> str:
        return f"s3://{self._name}/{key}".rstrip("/")

    def _missing(self, key: str) -> RecordingMissing:
        return RecordingMissing(
            f"there is nothing at {self._named(key)}",
            hint="check the bucket, the key and AWS_ENDPOINT_URL",
        )

    def _refused(self, key: str) -> ServerRefused:
        return ServerRefused(
            f"{self._named(key)} cannot be read with these keys",
            hint="check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and their permissions: "
            "s3:ListBucket, s3:GetObject",
        )

    def _changed(self, key: str) -> RecordingDamaged:
        return RecordingDamaged(
            f"{self._named(key)} has changed since it was listed",
            place=f"object {key}",
            hint="run the command again",
        )


def _reason(error: Exception) -> str:
    """Return the first line of an error, without a response body, which can repeat the request."""
    first = str(error).strip().splitlines()[:1]
    text = first[0] if first else type(error).__name__
    return text.partition("<")[0].strip()[:_WHY] or type(error).__name__
