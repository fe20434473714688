"""The kinds of text and number that may stand in a policy file, each with its words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

__all__ = [
    "ID_PATTERN",
    "Action",
    "Capability",
    "CasePath",
    "CassetteName",
    "Digest",
    "Domain",
    "Entry",
    "ExceptionName",
    "Glob",
    "Header",
    "Id",
    "JsonPath",
    "Kind",
    "Limit",
    "Method",
    "Milliseconds",
    "Mode",
    "Name",
    "Place",
    "Profile",
    "RelativePath",
    "SessionMode",
    "TestId",
    "Variable",
    "World",
]

# `$` would let a line end through in Python, and `\Z` is unknown to other readers of the schema.
_END = r"(?![\s\S])"

ID_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9._-]*{_END}"
_DOTTED = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
_CAPABILITY = rf"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*{_END}"


def _of(words: str, **limits: Any) -> Meta:
    """``words`` complete "expected …" in an error, also where a field has its own description."""
    return Meta(description=words, extra={"expected": words}, **limits)


Mode = Literal["off", "record", "replay", "record_missing", "rewrite"]
"""What a policy can name."""
SessionMode = Literal["off", "record", "replay", "record_missing", "rewrite", "update"]
"""What a session can be in. Where a policy is asked, ``update`` is ``record_missing``."""
Action = Literal["record", "stub", "re-execute", "pass", "block"]
Profile = Literal["none", "default", "strict"]

Id = Annotated[
    str,
    _of(
        "an id: letters, digits, '.', '_' and '-', at most 128, not starting with a mark",
        pattern=ID_PATTERN,
        max_length=128,
    ),
]
World = Annotated[
    str,
    _of("the name of a world, such as ci", pattern=ID_PATTERN, max_length=128),
]
Kind = Annotated[
    str,
    _of("a kind of call, such as network or tool", min_length=1, max_length=64),
]
Glob = Annotated[
    str,
    _of("a name, in which * and ? stand for any text", min_length=1, max_length=256),
]
Name = Annotated[
    str,
    _of("a name of 1 to 256 characters", min_length=1, max_length=256),
]
Place = Annotated[
    str,
    _of("the path of a file or folder", pattern=rf"^[^\x00]+{_END}", max_length=1024),
]
Capability = Annotated[
    str,
    _of("the name of a capability, such as net.fetch", pattern=_CAPABILITY, max_length=128),
]
Limit = Annotated[
    int,
    _of("a whole number, 0 or more", ge=0, le=2**53),
]
Milliseconds = Annotated[
    int,
    _of("a whole number of milliseconds, 1 or more", ge=1, le=2**53),
]
Header = Annotated[
    str,
    _of("the name of a header", pattern=rf"^[!#$%&'*+.^_`|~0-9A-Za-z-]+{_END}", max_length=256),
]
Domain = Annotated[
    str,
    _of(
        "a host without scheme and port, or *.host for it and all below it",
        pattern=rf"^(\*\.)?[^\s/\\*@?#%:]+{_END}|^\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?{_END}",
        max_length=255,
    ),
]
Method = Annotated[
    str,
    _of("an HTTP method in capitals", pattern=rf"^[A-Z]+{_END}", max_length=32),
]
JsonPath = Annotated[
    str,
    _of("a path such as $.messages[0].content", pattern=r"^\$", max_length=1024),
]
Variable = Annotated[
    str,
    _of(
        "the name of an environment variable",
        pattern=rf"^[A-Za-z_][A-Za-z0-9_]*{_END}",
        max_length=256,
    ),
]
Digest = Annotated[
    str,
    _of(
        "sha256: and 64 hexadecimal digits, as `reenact policy pin` writes them",
        pattern=rf"^(sha256:[0-9a-f]{{64}})?{_END}",
    ),
]
RelativePath = Annotated[
    str,
    _of("a path below the folder .reenact, without . and ..", min_length=1, max_length=1024),
]
TestId = Annotated[
    str,
    _of(
        "an id: letters, digits, '.', '_', '-' and '/', at most 128, not starting with a mark",
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9._/-]*{_END}",
        max_length=128,
    ),
]
Entry = Annotated[
    str,
    _of(
        "a module and a function in it, such as app.tests:smoke",
        pattern=rf"^{_DOTTED}:{_DOTTED}{_END}",
        max_length=256,
    ),
]
ExceptionName = Annotated[
    str,
    _of(
        "the name of an exception, such as LookupError or httpx.TimeoutException",
        pattern=rf"^{_DOTTED}{_END}",
        max_length=256,
    ),
]
CassetteName = Annotated[
    str,
    _of("the name of a cassette, such as weather.jsonl", min_length=1, max_length=1000),
]
CasePath = Annotated[
    str,
    _of(
        "a folder below the one of this file, such as fixtures/weather",
        min_length=1,
        max_length=1000,
    ),
]
