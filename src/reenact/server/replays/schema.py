"""Replay requests and the payload that results from their edits (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec

from reenact.errors import ReenactError, UsageError
from reenact.exchange.model import Body, Boundaries, EnvironmentVariables, Header, Id, Payload
from reenact.exchange.payload import check_payload, to_document
from reenact.exchange.payload_edits import Op, edit_payload, read_patch, resolve_pointer
from reenact.format.canonical import exact, jcs
from reenact.format.json_path import parse_pointer
from reenact.policy.redaction.redactor import Redactor
from reenact.server.problems import Problem

__all__ = [
    "Edit",
    "Modified",
    "ReplayRequest",
    "Target",
    "check_variables",
    "edited",
    "edits",
    "hidden",
    "unfilled",
]

Reason = Annotated[str, msgspec.Meta(max_length=2_000)]
_SECTIONS: Final = ("headers", "body", "properties")


class _Wanted(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """A field that is misspelt would be a wish that is not heard."""


class Modified(_Wanted, frozen=True):
    """Complete sections of the payload. Missing sections are replayed as recorded."""

    headers: tuple[Header, ...] | msgspec.UnsetType = msgspec.UNSET
    body: Body | msgspec.UnsetType = msgspec.UNSET
    properties: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Target(_Wanted, frozen=True):
    """An agent or an environment. The default is the location of the source."""

    agent_id: Id | None = None
    environment: Id | None = None


class ReplayRequest(_Wanted, frozen=True):
    """The body of ``POST …/replays``."""

    modified_payload: Modified | None = None
    patch: list[Any] | None = None
    target: Target = Target()
    boundaries: Boundaries = "recorded"
    strict: bool = False
    environment_variables: EnvironmentVariables = "current"
    revision: Literal["current", "same"] = "current"
    reason: Reason = ""


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of what was asked for, with the values that it is about."""

    op: str
    path: str
    from_: str = msgspec.field(default="", name="from")
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


def edited(start: Payload, wanted: ReplayRequest, most: int) -> Payload | None:
    """The payload that is to be replayed; None when it is the one that was recorded. Raises
    :class:`Problem` ``payload_invalid``; ``most`` is the size of a body."""
    if wanted.patch is not None and wanted.modified_payload is not None:
        raise _invalid("modifiedPayload and patch are both there", "give one or the other")
    try:
        if wanted.patch is not None:
            made = edit_payload(start, read_patch(wanted.patch))
        elif wanted.modified_payload is not None:
            made = _replaced(start, wanted.modified_payload)
        else:
            return None
        check_payload(made)
        jcs([to_document(made)])  # nothing in it is deeper than what can be kept
    except ReenactError as error:
        raise _invalid(error.message, error.hint) from None
    size = len(made.body.text.encode("utf-8", "surrogatepass")) + len(made.body.base64)
    if size > most:
        raise _invalid(f"the body has {size} bytes, more than {most}", "send a smaller one")
    return made


def _replaced(start: Payload, modified: Modified) -> Payload:
    sections = {name: getattr(modified, name) for name in _SECTIONS}
    given = {name: value for name, value in sections.items() if value is not msgspec.UNSET}
    made: Payload = msgspec.structs.replace(start, **given)
    if made.body.clipped is not None:
        raise UsageError("a clipped body cannot be replayed", hint="send it whole")
    return made


def check_variables(
    has_recording: bool, boundaries: Boundaries, variables: EnvironmentVariables
) -> None:
    """Raise :class:`Problem` if recorded environment variables are requested and not available."""
    if variables == "recorded" and (boundaries == "live" or not has_recording):
        raise _invalid(
            "recorded environment variables need a recording, which this replay does not use",
            "replay it with the boundaries recorded, or with environmentVariables current",
        )


def unfilled(start: Payload, payload: Payload, redacted: Sequence[str]) -> tuple[str, ...]:
    """The places of ``redacted`` that still hold what redaction has left there."""
    before, after = to_document(start), to_document(payload)
    return tuple(path for path in redacted if _same(before, after, path))


def _same(before: Any, after: Any, path: str) -> bool:
    try:
        tokens = parse_pointer(path)
        return exact(resolve_pointer(before, tokens)) == exact(resolve_pointer(after, tokens))
    except (LookupError, UsageError):  # what was taken away needs no value
        return False


def edits(start: Payload, payload: Payload, wanted: ReplayRequest) -> tuple[Edit, ...]:
    """Return the requested operations with the values before and after all of them."""
    before, after = to_document(start), to_document(payload)
    return tuple(_edit(one, before, after) for one in _operations(wanted))


def _operations(wanted: ReplayRequest) -> Iterator[Op]:
    if wanted.patch is not None:
        yield from read_patch(wanted.patch)
    elif wanted.modified_payload is not None:
        for name in _SECTIONS:
            if getattr(wanted.modified_payload, name) is not msgspec.UNSET:
                yield Op(op="replace", path=f"/{name}")


def _edit(one: Op, before: Any, after: Any) -> Edit:
    """Return one operation.

    The value is the fallback for paths that a later operation removed, and for the end of a list.
    """
    now = _at(after, one.path)
    source = one.from_ if isinstance(one.from_, str) else ""
    return Edit(
        one.op, one.path, source, _at(before, one.path), one.value if now is msgspec.UNSET else now
    )


def _at(document: Any, path: str) -> Any:
    try:
        return resolve_pointer(document, parse_pointer(path))
    except (LookupError, UsageError):
        return msgspec.UNSET


@cache
def _redactor() -> Redactor:
    return Redactor("default")


def hidden(value: Any, path: str = "") -> Any:
    """``value``, which stands at ``path``, without what looks like a secret, also by its names."""
    tokens = parse_pointer(path)
    for token in reversed(tokens):
        value = {token: value}
    value = _redactor().redact(value).value
    for token in tokens:
        value = value[token]
    return value


def _invalid(message: str, hint: str | None) -> Problem:
    return Problem("payload_invalid", message, hint=hint or "")
