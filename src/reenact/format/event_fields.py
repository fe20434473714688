"""The minimum fields of each event type, as typed values.

``LlmRequest(provider="openai", …).to_data()`` gives what a sink takes; ``read(event)`` gives the
typed value back. Fields that a later version or a boundary adds live in ``extra`` and survive.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import msgspec

from reenact.errors import ValueRefused
from reenact.format.decoders import build_decoders
from reenact.format.event import Data, Event

__all__ = [
    "PAYLOADS",
    "ErrorInfo",
    "LlmRequest",
    "LlmResponse",
    "Nondeterministic",
    "Payload",
    "RunEnd",
    "RunStart",
    "StateMutation",
    "ToolCall",
    "ToolResult",
    "read",
]


class ErrorInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A failure: the exception's class (module and name), its text, and what kind it was."""

    error_class: str = msgspec.field(name="class")
    message: str = ""
    kind: str = ""


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the eight. ``extra`` holds every field that is not declared."""

    event_type: ClassVar[str]
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def to_data(self) -> Data:
        """The JSON form, ``extra`` merged in."""
        known: Data = msgspec.to_builtins(self, builtin_types=(bytes,))
        known.pop("extra", None)
        return {**self.extra, **known}

    @classmethod
    def from_data(cls, data: Data) -> Self:
        """Raises :class:`ValueRefused` naming the field that is missing or of another type."""
        names = frozenset(cls.__struct_encode_fields__) - {"extra"}
        known = {name: item for name, item in data.items() if name in names}
        extra = {name: item for name, item in data.items() if name not in names}
        try:
            return msgspec.convert({**known, "extra": extra}, cls, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `")
            path = "$.data" + place.rstrip("`").removeprefix("$")
            raise ValueRefused(f"not a valid {cls.event_type}: {reason}", path) from None


class RunStart(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Input of the program, its redacted arguments, and the owner of the session."""

    event_type = "run_start"
    input: Any = None
    argv: list[str] = []
    session_key: str = ""


class RunEnd(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """End of the run. The digests cover everything written to stdout and stderr."""

    event_type = "run_end"
    status: Literal["ok", "error", "aborted"]
    output: Any = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    error: ErrorInfo | None = None
    exit_code: int | None = None
    stdout_digest: str | None = None
    stderr_digest: str | None = None


class LlmRequest(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model was asked. ``attempt`` counts the attempts at the same thing, ``call`` the model calls
    of a lane, both from 0."""

    event_type = "llm_request"
    provider: str
    model: str
    input_hash: str
    tool_schema_hash: str | None = None
    attempt: int | None = None
    call: int | None = None


class LlmResponse(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model answered, or failed (``error``)."""

    event_type = "llm_response"
    provider: str
    model: str
    stop_reason: str | None
    usage: dict[str, Any] | None
    response: Any = None
    error: ErrorInfo | None = None
    attempt: int | None = None
    call: int | None = None


class ToolCall(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A tool was called. ``call_id`` is opaque and survives byte for byte."""

    event_type = "tool_call"
    name: str
    args: Any
    call_id: str


class ToolResult(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Result of the tool ``name``: its return value (``result``) or exception (``error``)."""

    event_type = "tool_result"
    call_id: str
    ok: bool
    name: str = ""
    result: Any = None
    error: ErrorInfo | None = None


class StateMutation(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The program changed or read state outside: ``file_write``, ``env_read``, ``cwd_change`` …"""

    event_type = "state_mutation"
    kind: str = msgspec.field(name="type")
    details: dict[str, Any]


class Nondeterministic(Payload, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A draw. ``key`` is the requested value, ``value_hash`` the digest of the result."""

    event_type = "nondeterministic"
    source: str
    key: str
    value_hash: str
    value: Any = None


PAYLOADS: dict[str, type[Payload]] = {
    kind.event_type: kind
    for kind in (
        RunStart,
        RunEnd,
        LlmRequest,
        LlmResponse,
        ToolCall,
        ToolResult,
        StateMutation,
        Nondeterministic,
    )
}
build_decoders(*PAYLOADS.values())


def read(event: Event) -> Payload | None:
    """The typed value of ``event``, or None for a type this version does not know."""
    kind = PAYLOADS.get(event.type)
    return None if kind is None else kind.from_data(event.data)
