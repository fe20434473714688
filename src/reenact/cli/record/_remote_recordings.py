"""Recordings on a server or in an object store, for ``reenact regress``.

The command line's machine collects names and keys. Workers call :func:`open_libraries` to download."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import start_clock
from reenact.cli._client import Client, find_credentials, part, signed_in_client
from reenact.cli._parser import since_and_until, to_search
from reenact.errors import (
    RecordingDamaged,
    RecordingMissing,
    ReenactError,
    ServerMisused,
    ServerUnusable,
    UsageError,
)
from reenact.exchange.client.address import Secret, parse_address
from reenact.runs.remote.download import FetchOptions
from reenact.runs.remote.location import (
    GIVEN,
    RECORDING,
    Location,
    RemoteRecording,
    RemoteStore,
    StoreKind,
)
from reenact.runs.remote.s3 import SETTINGS, BucketRecordings
from reenact.store.pack import unpack

__all__ = [
    "Captures",
    "Exchanges",
    "find_on_server",
    "means_for",
    "open_libraries",
]

_MOST = 10_000


def find_on_server(args: argparse.Namespace) -> list[RemoteRecording]:
    """Return the recordings that ``--from-server`` and its filters select, newest first.

    Raises :class:`RecordingMissing` if there are none and :class:`UsageError` if there are too many.
    """
    client = signed_in_client()
    most = args.limit or _MOST
    if args.from_server == "captures":
        query = {"text": args.text, **since_and_until(args)}
        items = client.items("/api/v1/captures", query, most + 1)
        found = [_capture(one) for one in items]
    else:
        items = client.items("/api/v1/exchanges", _filters(client, args), most + 1)
        found = [
            RemoteRecording(keeper="exchange", name=f"exchange:{one['exchangeId']}")
            for one in items
        ]
    if not found:
        raise RecordingMissing(
            f"the server has no matching {args.from_server}",
            hint="send a recording: reenact push RUN"
            if args.from_server == "captures"
            else "list the exchanges: reenact exchange ls",
        )
    if len(found) > most and args.limit is None:
        raise UsageError(
            f"the filters match more than {most:,} recordings",
            hint="limit them to the newest with --limit N, or filter with --since, --until, --text",
        )
    return found[:most]


def _capture(one: dict[str, Any]) -> RemoteRecording:
    return RemoteRecording(
        keeper="capture", name=f"capture:{one['captureId']}", version=str(one["digest"])
    )


def _filters(client: Client, args: argparse.Namespace) -> dict[str, Any]:
    """Return the query for replayable exchanges. The calls of other exchanges were not recorded."""
    now = start_clock()()
    if args.saved is not None:
        search = dict(client.get(f"/api/v1/searches/{part(args.saved)}")["filters"])
    else:
        search = to_search(args, now)
    within = search.pop("within", None)
    if within:
        search["since"] = now - within
    wanted = {"replay": False, **search, "replayable": True}
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, bool) else value
        for name, value in wanted.items()
    }


_CHUNK = 1 << 20
_SECRET = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class _Access(msgspec.Struct, omit_defaults=True):
    """Credentials for a worker. They are not printed."""

    server: str = ""
    key: str = ""
    s3: dict[str, str] = {}

    def __repr__(self) -> str:
        return "_Access(…)"


def means_for(recordings: Iterable[Location], folder: str | None, most: int) -> FetchOptions:
    """Collect the credentials for these recordings from the environment and the login.

    Raises :class:`UsageError` if the user has to sign in first.
    """
    keepers = {one.keeper for one in recordings if isinstance(one, RemoteRecording)}
    access = _Access()
    if keepers - {"s3"}:
        address, key = find_credentials(os.environ)
        access.server, access.key = str(address), key.reveal()
    if "s3" in keepers:
        access.s3 = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
    secrets = (access.key, *(access.s3.get(name, "") for name in _SECRET))
    return FetchOptions(
        open_libraries,
        msgspec.json.encode(access),
        secrets=tuple(filter(None, secrets)),
        folder=folder,
        most=most,
    )


def open_libraries(said: bytes) -> Mapping[StoreKind, RemoteStore]:
    """Return the libraries that the credentials give access to."""
    access = msgspec.json.decode(said, type=_Access)
    found: dict[StoreKind, RemoteStore] = {"s3": BucketRecordings(access.s3)}
    if access.server:
        client = Client(parse_address(access.server), Secret(access.key))
        found |= {"capture": Captures(client), "exchange": Exchanges(client)}
    return found


class Captures:
    """Library of pushed captures."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        path = f"/api/v1/captures/{part(remote.where)}"
        _fetch(self._client, path, remote, folder)


class Exchanges:
    """Library of exchange recordings. The input of the route is the exchange's start payload."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        path = f"/api/v1/exchanges/{part(remote.where)}"
        try:
            found = self._client.get(path)
        except (ServerMisused, ServerUnusable) as error:
            raise _own(remote, error) from None
        if found.get("recording") is None:
            raise RecordingMissing(
                f"{remote.name} has no recording of its calls",
                hint=f"see why: reenact exchange show {remote.where}",
            )
        told = msgspec.structs.replace(remote, version=str(found["recording"]["digest"]))
        _fetch(self._client, f"{path}/recording", told, folder)
        (folder / GIVEN).write_bytes(msgspec.json.encode(found["start"]))


def _fetch(client: Client, path: str, remote: RemoteRecording, folder: Path) -> None:
    """Download and unpack a recording. Its version is the digest of the packed file."""
    packed = folder / "packed"
    try:
        client.download(path, packed)
    except (ServerMisused, ServerUnusable) as error:
        raise _own(remote, error) from None
    if remote.version not in ("", _digest(packed)):
        raise RecordingDamaged(
            f"{remote.name} does not match the digest that the server sent",
            place="digest",
            hint="ask the operator of the server to check its blobs",
        )
    unpack(packed, folder / RECORDING)
    packed.unlink()


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while piece := content.read(_CHUNK):
            found.update(piece)
    return f"sha256:{found.hexdigest()}"


def _own(remote: RemoteRecording, error: ReenactError) -> ReenactError:
    """Convert the server's error about one recording to an error of that recording."""
    problem = error.fields.get("problem")
    if problem in ("not_found", "gone"):
        return RecordingMissing(
            f"{remote.name} is not on the server",
            hint="it was erased, or never was there: reenact pull, reenact exchange ls",
        )
    if problem == "damaged":
        return RecordingDamaged(
            f"{remote.name} is damaged on the server", place=remote.where, hint=error.hint
        )
    return error
