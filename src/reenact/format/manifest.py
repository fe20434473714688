"""The manifest: description of a recording, and the checksums that prove it complete."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, Literal, Self

import msgspec

from reenact.errors import RecordingDamaged, RecordingOutdated, RecordingTooNew, ValueRefused
from reenact.format.canonical import decode, digest, digest_bytes, quickly
from reenact.format.decoders import build_decoders

__all__ = [
    "FORMAT",
    "MAJOR",
    "BlobTotals",
    "Checkpoints",
    "Flag",
    "Format",
    "Integrity",
    "Manifest",
    "Model",
    "Origin",
    "PolicyRef",
    "RedactionInfo",
    "Seed",
    "check_version",
]

MAJOR: Final = 1
MINOR: Final = 0
_LONGEST_MAJOR = 10  # digits; more is nonsense, and int() has a limit of its own
Profile = Literal["none", "default", "strict"]


class Flag(IntEnum):
    """Numbered behaviours. A recording lists those it relies on; a reader refuses unknown ones."""

    DELTAS = 1
    """Some payloads are stored as what changed against an earlier event."""
    SEALED = 2
    """Some redacted values are stored encrypted, next to the events."""
    APPROXIMATE = 3
    """The order of deliveries is approximate: a loop did not show when it was at rest."""
    REVIEWED = 4
    """The lines of a tape have no seq, and JSON bodies of responses are written as JSON."""


class Format(msgspec.Struct, frozen=True):
    """Name and ``major.minor`` version of the format."""

    name: str = "reenact"
    version: str = f"{MAJOR}.{MINOR}"


FORMAT: Final = Format()


class Model(msgspec.Struct, frozen=True):
    """A model by provider and name; both empty for a program that calls none."""

    provider: str = ""
    model: str = ""


class RedactionInfo(msgspec.Struct, frozen=True):
    """Redaction that was applied to the events before they were written."""

    enabled: bool
    profile: Profile


class PolicyRef(msgspec.Struct, frozen=True):
    """The policy in force, pinned by its digest."""

    id: str
    digest: str


class Origin(msgspec.Struct, frozen=True, rename="camel"):
    """Source of a fork or a replay."""

    capture_id: str
    seq: int


class Checkpoints(msgspec.Struct, frozen=True):
    """The first 8 hex digits of the running hash after every ``every`` lines, one after another."""

    every: int
    hashes: str


class Integrity(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``events_hash``: sha256 of the log as it lies there (``sha256sum`` gives the same).

    ``content_hash`` compares runs: see :mod:`reenact.format.content_hash`. ``manifest_hash`` covers
    every other field of the manifest.
    """

    algorithm: Literal["sha256"]
    events_hash: str
    content_hash: str
    checkpoints: Checkpoints
    manifest_hash: str = ""


class BlobTotals(msgspec.Struct, frozen=True):
    """Number of blobs, and their total size."""

    count: int
    bytes: int


class Seed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Properties that are known when a recording starts. Times are milliseconds since the epoch.

    ``capability_set`` is the hash of the known capabilities; ``extra`` keeps fields that a later
    minor version added.
    """

    version: int
    format: Format
    capture_id: str
    run_id: str
    created_at: int
    mode: Literal["capture", "replay"]
    model: Model
    event_log_path: str
    redaction: RedactionInfo
    environment: dict[str, str]
    policy: PolicyRef | None = None
    parent: Origin | None = None
    capability_set: str | None = None
    extra: dict[str, Any] = {}

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Self:
        """The fields of ``raw``, unchecked otherwise. Raises :class:`msgspec.ValidationError`."""
        known = set(Manifest.__struct_encode_fields__) - {"extra"}
        extra = {name: item for name, item in raw.items() if name not in known}
        return msgspec.convert({**raw, "extra": extra}, cls)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, ``extra`` merged in."""
        known: dict[str, Any] = msgspec.to_builtins(self)
        extra = known.pop("extra", {})
        return {**known, **extra}


class Manifest(Seed, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A complete manifest.

    ``model`` is the model of the first model call, unless the seed names one. ``models`` lists all
    models in the order of their first call if there are several.
    """

    event_count: int
    lanes: int
    integrity: Integrity
    blobs: BlobTotals
    status: Literal["ok", "error", "recovered"]
    completed_at: int | None = None
    error: str | None = None
    flags: list[int] = []
    sealed: dict[str, str] | None = None
    models: list[Model] = []

    @classmethod
    def close(cls, seed: Seed, **final: Any) -> Self:
        """The manifest of a recording that began with ``seed``, with its own hash filled in."""
        return cls.close_json(seed, **final)[0]

    @classmethod
    def close_json(cls, seed: Seed, **final: Any) -> tuple[Self, dict[str, Any]]:
        """:meth:`close`, with the JSON form of the manifest."""
        open_ended = cls(**msgspec.structs.asdict(seed), **final)
        raw = open_ended.to_json()
        own_hash = _self_hash(raw) if seed.extra else _own_hash(raw)
        raw["integrity"]["manifestHash"] = own_hash
        integrity = msgspec.structs.replace(open_ended.integrity, manifest_hash=own_hash)
        msgspec.structs.force_setattr(open_ended, "integrity", integrity)  # not shared yet
        return open_ended, raw

    @classmethod
    def from_json(cls, raw: dict[str, Any], *, place: str) -> Self:
        """Check version, own hash and fields, in that order. ``place`` names the file in errors."""
        check_version(raw, place)
        found = raw.get("integrity")
        if not isinstance(found, dict) or found.get("manifestHash") != _self_hash(raw):
            raise RecordingDamaged(
                f"{place} is not what was written: its own hash does not match",
                place=place,
                hint="restore it from a copy; an edited manifest cannot be trusted",
            )
        try:
            manifest = cls.read(raw)
        except msgspec.ValidationError as error:
            raise RecordingDamaged(f"{place}: {error}", place=place) from None
        _check_flags(manifest.flags, place)
        return manifest


build_decoders(Seed, Manifest)


def _own_hash(raw: dict[str, Any]) -> str:
    """:func:`_self_hash` for a manifest that is being closed and has no ``extra``: it states no hash
    yet, and there are only texts and small integers in it, which need no closer look."""
    encoded = quickly(raw)
    return digest_bytes(encoded) if encoded.isascii() and encoded else _self_hash(raw)


def _self_hash(raw: dict[str, Any]) -> str:
    integrity = raw.get("integrity")
    if isinstance(integrity, dict):
        integrity = {name: item for name, item in integrity.items() if name != "manifestHash"}
    try:
        return digest({**raw, "integrity": integrity})
    except ValueRefused:
        return "none"  # which no manifest states


def check_version(raw: dict[str, Any], place: str) -> None:
    """Refuse what this version cannot read: too new, or older and in need of migration."""
    form = raw.get("format")
    if form is None:
        if raw.get("version") == 1 and "captureId" in raw:
            raise RecordingOutdated(
                f"{place} has no format field: it was written before format 1",
                hint="reenact migrate OLD NEW",
            )
        raise RecordingDamaged(f"{place} does not say what format it is", place=place)
    text = form.get("version") if isinstance(form, dict) else None
    major, _, minor = str(text).partition(".")
    readable = major.isdecimal() and minor.isdecimal() and len(major) < _LONGEST_MAJOR
    if not readable or form.get("name") != FORMAT.name:
        raise RecordingDamaged(f"{place} names no format of ours", place=place)
    if int(major) > MAJOR:
        raise RecordingTooNew(
            f"{place} has format {text}; this version reads {MAJOR}.x",
            hint="pip install --upgrade reenact",
        )
    if int(major) < MAJOR:
        raise RecordingOutdated(
            f"{place} has format {text}; this version reads {MAJOR}.x",
            hint="reenact migrate OLD NEW",
        )


def _check_flags(flags: list[int], place: str) -> None:
    known = set(map(int, Flag))
    unknown = [flag for flag in flags if flag not in known]
    if unknown:
        raise RecordingTooNew(
            f"{place} relies on behaviour flags {unknown} that this version does not know",
            hint="pip install --upgrade reenact",
        )


def parse(encoded: bytes, *, place: str) -> dict[str, Any]:
    """The JSON object in ``encoded``, or :class:`RecordingDamaged`."""
    try:
        raw = decode(encoded)
    except ValueRefused as error:
        raise RecordingDamaged(
            f"{place} cannot be read: {error.message}", place=place, hint="restore it from a copy"
        ) from None
    if not isinstance(raw, dict):
        raise RecordingDamaged(f"{place} is not a JSON object", place=place)
    return raw
