"""Objects of a store that speaks S3: listed, and written to files.

Where the store is and who asks are said as for every program: ``AWS_ENDPOINT_URL``, ``AWS_REGION``,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and the like; without keys those of the machine.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reenact.errors import (
    ExtraMissing,
    RecordingDamaged,
    RecordingMissing,
    ReenactError,
    ServerRefused,
    ServerUnusable,
    UsageError,
)
from reenact.runs.afar.naming import Object

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = ["SETTINGS", "Bucket", "open_bucket"]

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
"""Variables that say where a store is, and who asks."""
_PATIENCE: Final = timedelta(seconds=20)
_PAGE: Final = 1_000
_CHUNK: Final = 1 << 20
_WHY: Final = 200
_STATUS: Final = re.compile(r"status code: (\d{3})")


def open_bucket(name: str, settings: Mapping[str, str]) -> Bucket:
    """Nothing is asked yet. Raises :class:`UsageError`."""
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
    """What is in a bucket. Errors are ours, and say nothing that a key could be in."""

    def __init__(self, store: S3Store, name: str) -> None:
        self._store, self._name = store, name

    def under(self, key: str) -> Iterator[Object]:
        """All objects below what is like a folder; all there are, when ``key`` is empty."""
        import obstore

        with self._told(key):
            for batch in obstore.list(self._store, key or None, chunk_size=_PAGE):
                for one in batch:
                    yield Object(one["path"], one["size"], one.get("e_tag") or "")

    def at(self, key: str) -> Object:
        """One object. Raises :class:`RecordingMissing`."""
        import obstore

        with self._told(key):
            one = obstore.head(self._store, key)
            return Object(one["path"], one["size"], one.get("e_tag") or "")

    def start(self, key: str, size: int) -> bytes:
        """The first ``size`` bytes of an object that is not empty."""
        import obstore

        with self._told(key):
            return bytes(obstore.get_range(self._store, key, start=0, length=size))

    def download(self, found: Object, target: Path) -> None:
        """Write an object, as it was listed, to a file."""
        import obstore

        options = {"if_match": found.tag} if found.tag else {}
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            with self._told(found.key):
                stream = obstore.get(self._store, found.key, options=options)  # type: ignore[arg-type]
                pieces = iter(stream.stream(min_chunk_size=_CHUNK))
            while True:
                with self._told(found.key):
                    piece = next(pieces, None)
                if piece is None:
                    break
                file.write(piece)
            written = file.tell()
        if written != found.size:
            raise self._changed(found.key)

    @contextlib.contextmanager
    def _told(self, key: str) -> Iterator[None]:
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
        """Lists say what is wrong with them in words only."""
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
            f"{self._named(key)} may not be read with these keys",
            hint="check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do: "
            "s3:ListBucket, s3:GetObject",
        )

    def _changed(self, key: str) -> RecordingDamaged:
        return RecordingDamaged(
            f"{self._named(key)} is not what was listed",
            place=f"object {key}",
            hint="somebody wrote to it meanwhile; run it again",
        )


def _reason(error: Exception) -> str:
    """A status or a sentence, and nothing of an answer, which may repeat what was sent."""
    first = str(error).strip().splitlines()[:1]
    said = first[0] if first else type(error).__name__
    return said.partition("<")[0].strip()[:_WHY] or type(error).__name__
