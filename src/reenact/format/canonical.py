"""JSON that is the same bytes for the same value.

Two encodings, one walk:

- *canonical* is RFC 8785 (JCS) with one extension: integers beyond 2^53 keep their exact digits.
  Keys and comparisons use it; 1 and 1.0 are equal in it.
- *exact* is the stored form: sorted keys, no spaces, and floats stay floats (``1.0`` is read
  back as ``1.0``), because a replayed tool must return what the recorded one returned.

Both turn bytes into ``{"$bytes": "<base64>"}`` and put one more ``$`` before a reserved key of the
recorded object itself (``$blob`` becomes ``$$blob``), so that any recorded object survives.

Refused with the path, never silently changed: NaN, infinities, lone surrogates, keys that are not
strings, integers of more than 4,300 digits, objects that JSON does not know, nesting beyond 200.
Both C encoders at hand write ``null`` for NaN, hence the walk before them.
"""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson

from reenact.errors import ValueRefused
from reenact.format.json_path import Path, join

__all__ = [
    "MAX_DEPTH",
    "canonical",
    "decode",
    "digest",
    "digest_bytes",
    "exact",
    "has_marks",
    "has_plain_numbers",
    "jcs",
    "plain",
    "quickly",
    "stored",
]

MAX_DEPTH = 200
_NO_MATTER = 2**63
RESERVED = frozenset({"bytes", "blob", "delta"})

_SORTED = orjson.OPT_SORT_KEYS
_DOLLAR = ord("$")  # a number is found in bytes ten times as fast as a byte string
_decode_any = msgspec.json.decode

# Result of a survey of a value: nothing; integral floats, which only the canonical encoding
# changes; or a value for the slow path through _normalise, which tracks the paths.
_CLEAN = 0
_WHOLE = 1
_ODD = 2


def _survey(value: Any, room: int) -> int:
    """Does ``value``, a container, need work? Written for speed: it is on every event's path."""
    found = _CLEAN
    inside = [value]
    for one in inside:  # which grows meanwhile
        items: Iterable[Any] = one.values() if type(one) is dict else one
        for item in items:
            kind: type = type(item)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list or kind is tuple:
                inside.append(item)
            elif kind is float:
                # Inside this range RFC 8785 and orjson agree on every digit.
                if 1e-5 <= item < 1e16 or -1e16 < item <= -1e-5:
                    if item.is_integer():
                        found = _WHOLE
                elif item == 0:
                    found = _WHOLE
                else:
                    return _ODD
            elif item is not None and kind is not bool:
                return _ODD
        if len(inside) > room:
            if _is_deep(value, room):
                return _ODD
            room = _NO_MATTER
    return found


def _is_deep(value: Any, room: int) -> bool:
    """Are there more than ``room`` containers in each other? One may be in itself."""
    level = [value]
    while level and room:
        room -= 1
        level = [
            item
            for one in level
            for item in (one.values() if type(one) is dict else one)
            if type(item) is dict or type(item) is list or type(item) is tuple
        ]
    return bool(level)


def exact(value: Any) -> bytes:
    """The bytes that are stored for ``value``. Raises :class:`ValueRefused`."""
    return _encode(value, jcs=False, escape=True)


def stored(value: Any) -> bytes:
    """Encode again what :func:`decode` read from stored bytes: its marks stay as they are."""
    return _encode(value, jcs=False, escape=False)


def canonical(value: Any) -> bytes:
    """The canonical form of ``value`` for keys and comparisons. Raises :class:`ValueRefused`."""
    return _encode(value, jcs=True, escape=True)


def jcs(value: Any) -> bytes:
    """The canonical form of ``value`` with every key as it is: what :func:`decode` read from
    canonical bytes gives those bytes again. Raises :class:`ValueRefused`."""
    return _encode(value, jcs=True, escape=False)


def _encode(value: Any, *, jcs: bool, escape: bool) -> bytes:
    kind: type = type(value)
    if kind is not dict and kind is not list:
        return _encode_slowly(value, jcs, escape)
    found = _survey(value, MAX_DEPTH)
    if found == _ODD:
        return _encode_slowly(value, jcs, escape)
    try:
        encoded = orjson.dumps(_integral(value) if jcs and found else value, option=_SORTED)
    except TypeError:  # the error has no path; the slow path reports it
        return _encode_slowly(value, jcs, escape)
    if (escape and has_marks(encoded)) or (jcs and _has_wide(encoded) and _has_wide_key(value)):
        return _encode_slowly(value, jcs, escape)
    return encoded


def has_plain_numbers(value: Any) -> bool:
    """Do RFC 8785 and orjson write each number of ``value``, a container that was read from JSON,
    with the same digits? From 0.0001 on Python does, too."""
    return _survey(value, MAX_DEPTH) != _ODD


def _integral(value: Any) -> Any:
    """A copy of ``value`` with integers in place of its whole floats."""
    kind: type = type(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is dict:
        return {key: _integral(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_integral(item) for item in value]
    return value


def has_marks(encoded: bytes) -> bool:
    """May there be a key in ``encoded`` that has, or looks like, a storage mark?"""
    return _DOLLAR in encoded and (
        b'$blob"' in encoded or b'$bytes"' in encoded or b'$delta"' in encoded
    )


def _has_wide(encoded: bytes) -> bool:
    """Is there a character beyond U+FFFF (a four-byte sequence in UTF-8)?"""
    # Written out, because a generator costs more than the five searches.
    return not encoded.isascii() and (
        0xF0 in encoded or 0xF1 in encoded or 0xF2 in encoded or 0xF3 in encoded or 0xF4 in encoded
    )


def _has_wide_key(value: Any) -> bool:
    """Is there one in a key? Only then the order by UTF-16 differs from that by code point."""
    kind: type = type(value)
    if kind is dict:
        return any(not key.isascii() and max(key) > "\uffff" for key in value) or any(
            map(_has_wide_key, value.values())
        )
    return (kind is list or kind is tuple) and any(map(_has_wide_key, value))


def _encode_slowly(value: Any, jcs: bool, escape: bool) -> bytes:
    normal = _normalise(value, (), jcs, escape)
    try:
        return orjson.dumps(normal)
    except TypeError as error:
        raise ValueRefused(str(error)) from None


def _normalise(value: Any, path: Path, jcs: bool, escape: bool) -> Any:
    """A copy of ``value`` that orjson writes as we want it, or :class:`ValueRefused`."""
    if len(path) > MAX_DEPTH:
        raise ValueRefused(
            f"nested deeper than {MAX_DEPTH}",
            join(path[:8]) + "…",
            hint="flatten the value, or record a reference to it",
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(int(value), path)
    if isinstance(value, float):
        return _float(float(value), path, jcs)
    if isinstance(value, dict):
        return _object(value, path, jcs, escape)
    if isinstance(value, (list, tuple)):
        return [_normalise(item, (*path, index), jcs, escape) for index, item in enumerate(value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": b64encode(value).decode("ascii")}
    raise ValueRefused(
        f"a {type(value).__name__} is not a JSON value",
        join(path),
        hint="convert it to text, numbers, lists and objects first",
    )


def _text(value: str, path: Path) -> str:
    plain_text = str.__str__(value)
    try:
        plain_text.encode()
    except UnicodeEncodeError as error:
        raise ValueRefused(
            f"lone surrogate at character {error.start}",
            join(path),
            hint="encode it as bytes (errors='surrogatepass') first",
        ) from None
    return plain_text


def _integer(value: int, path: Path) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    try:
        return orjson.Fragment(str(value))
    except ValueError:
        raise ValueRefused("an integer of more than 4,300 digits", join(path)) from None


def _float(value: float, path: Path, jcs: bool) -> Any:
    if not math.isfinite(value):
        raise ValueRefused(
            f"{value} is not a JSON number",
            join(path),
            hint="record it as text, or as null with a field that holds the reason",
        )
    if 1e-5 <= abs(value) < 1e16 and not value.is_integer():
        return value
    return orjson.Fragment(_ecmascript(value) if jcs else repr(value))


def _ecmascript(value: float) -> str:
    """``Number::toString`` of ECMAScript, which RFC 8785 prescribes."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def _object(value: dict[Any, Any], path: Path, jcs: bool, escape: bool) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise ValueRefused(f"a key is a {type(key).__name__}, not a string", join(path))
    named = {_text(key, path): item for key, item in value.items()}
    # In the order of the names as stored: encoding again what was read gives the same bytes.
    stored_as = {_escape(name) if escape else name: name for name in named}
    return {
        name: _normalise(named[stored_as[name]], (*path, stored_as[name]), jcs, escape)
        for name in (sorted(stored_as, key=_utf16) if jcs else sorted(stored_as))
    }


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _escape(key: str) -> str:
    return f"${key}" if key.startswith("$") and key.lstrip("$") in RESERVED else key


def plain(value: Any) -> Any:
    """Undo the storage marks of :func:`exact`: real bytes, reserved keys as they were."""
    if isinstance(value, dict):
        if len(value) == 1 and "$bytes" in value:
            return _bytes(value["$bytes"])
        return {_unescape(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _bytes(value: Any) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, TypeError, ValueError):
        raise ValueRefused("a $bytes value is not base64") from None


def _unescape(key: str) -> str:
    return key[1:] if key.startswith("$$") and key.lstrip("$") in RESERVED else key


def decode(encoded: bytes, *, deepest: int = MAX_DEPTH) -> Any:
    """Read JSON strictly: duplicate keys, NaN, lone surrogates and over-deep nesting are refused.

    Storage marks are left in place: see :func:`plain`.
    """
    try:
        value = _decode_any(encoded)
        again = orjson.dumps(value, option=_SORTED)
        if (again == encoded or _has_all(again, encoded)) and not _is_deeper(
            encoded, value, deepest
        ):
            return value  # no key stands twice: nothing more to check
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        pass  # the strict reader reports the error
    return _decode_strictly(encoded, deepest)


def _has_all(again: bytes, encoded: bytes) -> bool:
    """Return whether ``again``, encoded from the decoded value, has all members of ``encoded``.

    Every notation of a text has the same number of quotes, except for hexadecimal escapes. A member
    that was lost because of a duplicate key removes at least two quotes.
    """
    return again.count(b'"') == encoded.count(b'"') and b"\\u0022" not in encoded


def _is_deeper(encoded: bytes, value: Any, deepest: int) -> bool:
    # Replacing finds the brackets four times as fast as count(), which looks at every byte.
    if len(encoded) - len(encoded.replace(b"[", b"").replace(b"{", b"")) <= deepest:
        return False
    return _reaches(value, deepest)


def _reaches(value: Any, room: int) -> bool:
    if type(value) is not dict and type(value) is not list:
        return False
    if room == 0:
        return bool(value)
    items = value.values() if type(value) is dict else value
    return any(_reaches(item, room - 1) for item in items)


def _decode_strictly(encoded: bytes, deepest: int) -> Any:
    try:
        text = str(encoded, "utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise ValueRefused(f"nested deeper than {deepest}") from None
    except UnicodeDecodeError as error:
        raise ValueRefused(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueRefused(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # the interpreter's own limit on digits
        raise ValueRefused(f"not JSON: {error}") from None
    _check_read(value, (), deepest)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueRefused(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise ValueRefused(f"{name} is not a JSON number")


def _check_read(value: Any, path: Path, deepest: int) -> None:
    if len(path) > deepest:
        raise ValueRefused(f"nested deeper than {deepest}", join(path[:8]) + "…")
    if isinstance(value, str):
        _text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueRefused("a number too large for a float", join(path))
    elif isinstance(value, dict):
        for key, item in value.items():
            _text(key, path)
            _check_read(item, (*path, key), deepest)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_read(item, (*path, index), deepest)


def quickly(value: Any) -> bytes:
    """Return :func:`exact` of a ``value`` that was read from JSON.

    Returns empty bytes if only the slow path can decide (bytes, huge integers, marks). Wrong for
    very large and very small floats.
    """
    try:
        encoded = orjson.dumps(value, option=_SORTED)
    except TypeError:
        return b""
    return b"" if has_marks(encoded) else encoded


def digest_bytes(data: bytes) -> str:
    """``sha256:<64 hex>`` of raw bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest(value: Any) -> str:
    """``sha256:<64 hex>`` of the canonical form of ``value``."""
    return digest_bytes(canonical(value))
