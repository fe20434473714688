"""The formats there are, by name; and which one a file is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from reenact.errors import RecordingDamaged, RecordingTooNew, UsageError, did_you_mean
from reenact.interop import boruna, har, mitmproxy, rrbin, vcr
from reenact.interop.model import Found, Item, Made, check_size

__all__ = ["FORMATS", "Format", "format_named", "guess", "read_content"]


class Format(msgspec.Struct, frozen=True):
    """Foreign format. ``suffixes`` are its file name suffixes, with the usual one first."""

    name: str
    what: str
    suffixes: tuple[str, ...]
    read: Callable[[bytes], Found]
    write: Callable[[Iterable[Item]], Made] | None = None


FORMATS = (
    Format("vcr", "vcrpy and pytest-recording", (".yaml", ".yml"), vcr.read, vcr.write),
    Format(
        "vcr-json", "vcrpy's JSON serializer", (".json",), vcr.read_json_cassette, vcr.write_json
    ),
    Format("har", "HAR 1.2", (".har",), har.read, har.write),
    Format("rrbin", "X07", (".rrbin",), rrbin.read, rrbin.write),
    Format("boruna", "Boruna's net tape", (".json",), boruna.read, boruna.write),
    Format("mitmproxy", "mitmproxy's flows", (".mitm", ".flows", ".flow"), mitmproxy.read),
)


def format_named(name: str) -> Format:
    """Raises :class:`UsageError` that names the nearest."""
    for one in FORMATS:
        if one.name == name:
            return one
    names = [one.name for one in FORMATS]
    raise UsageError(f"unknown format {name[:64]!r}", hint=did_you_mean(name, names))


def guess(path: Path, content: bytes = b"") -> Format | None:
    """Return the format of a file by its name, or by its content if several formats share the
    suffix.
    """
    named = [one for one in FORMATS if path.suffix.lower() in one.suffixes]
    if len(named) < 2:
        return named[0] if named else None
    start = content[:100_000]
    if b'"format_version"' in start:
        return format_named("boruna")
    if b'"log"' in start and b'"interactions"' not in start:
        return format_named("har")
    return named[0]


def read_content(one: Format, content: bytes, name: str) -> Found:
    """Read ``content`` of the file ``name``.

    Raises :class:`RecordingError` with the file and the location in it, and :class:`ExtraMissing`.
    """
    try:
        check_size(len(content))
        return one.read(content)
    except RecordingDamaged as error:
        fields = {key: value for key, value in error.fields.items() if key != "place"}
        raise RecordingDamaged(
            f"{name}: {error.message}", place=f"{name}, {error.place}", hint=error.hint, **fields
        ) from None
    except RecordingTooNew as error:
        place = f"{name}, {error.fields.get('place')}"
        raise RecordingTooNew(f"{name}: {error.message}", hint=error.hint, place=place) from None
