"""Messages between app agents and servers about exchanges: plain values, no behaviour.

JSON names are camelCase. Times are milliseconds since the epoch, UTC. Durations are milliseconds
with a fraction. Unknown fields are ignored, so either side can be newer. docs/reference/protocol.md
describes the messages.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

__all__ = [
    "BOUNDARIES",
    "ENVIRONMENT_VARIABLES",
    "MAX_ID",
    "PROTOCOL",
    "STATES",
    "STATUSES",
    "TERMINAL",
    "VERDICTS",
    "Body",
    "BodyType",
    "Boundaries",
    "Change",
    "Command",
    "Containment",
    "DriverTreatment",
    "DriverUse",
    "EnvironmentVariables",
    "ErrorFacts",
    "Exchange",
    "ExchangeStatus",
    "FileWrites",
    "Header",
    "Heartbeat",
    "Id",
    "Kind",
    "Payload",
    "Processor",
    "ProcessorKind",
    "ProcessorStatus",
    "RecordingRef",
    "Registered",
    "Registration",
    "ReplayOf",
    "ReplaySource",
    "Route",
    "State",
    "StateReport",
    "Trace",
    "Verdict",
]

PROTOCOL: Final = 1
MAX_ID: Final = 128

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID, pattern=r"^[A-Za-z0-9._~:@-]+$")]
"""Ids that need no quoting in URLs. A route id is free text, because it can contain a path."""

Text = Annotated[str, msgspec.Meta(max_length=4_096)]
RouteId = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Stamp = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]

BodyType = Literal["none", "text", "json", "bytes"]
Kind = Literal["http", "route", "task"]
ExchangeStatus = Literal["completed", "failed"]
STATUSES: Final[tuple[ExchangeStatus, ...]] = ("completed", "failed")
ProcessorKind = Literal["step", "loop", "split", "choice", "handler"]
ProcessorStatus = Literal["completed", "failed", "handled"]
Boundaries = Literal["recorded", "recorded_then_live", "live"]
BOUNDARIES: Final[tuple[Boundaries, ...]] = ("recorded", "recorded_then_live", "live")
EnvironmentVariables = Literal["current", "recorded"]
ENVIRONMENT_VARIABLES: Final[tuple[EnvironmentVariables, ...]] = ("current", "recorded")
DriverTreatment = Literal["allow", "refuse", "undeclared"]
FileWrites = Literal["refuse", "allow"]

State = Literal[
    "requested", "delivered", "running", "completed", "failed", "refused", "cancelled", "expired"
]
STATES: Final[tuple[State, ...]] = (
    "requested",
    "delivered",
    "running",
    "completed",
    "failed",
    "refused",
    "cancelled",
    "expired",
)
TERMINAL: Final[frozenset[State]] = frozenset(
    {"completed", "failed", "refused", "cancelled", "expired"}
)
Verdict = Literal["identical", "equivalent", "fixed", "regressed", "diverged"]
VERDICTS: Final[tuple[Verdict, ...]] = (
    "identical",
    "equivalent",
    "fixed",
    "regressed",
    "diverged",
)

Header = tuple[str, str]


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Message of the protocol, or a part of one. Fields with default values are sent too, so the
    documented form is also the signed form."""


class Body(Wire, frozen=True, kw_only=True):
    """Typed body. ``text`` is the exact text of ``text`` and ``json`` bodies; the formatting of
    JSON only changes in an edit. ``base64`` is the content of ``bytes`` bodies.

    ``clipped`` is the size in bytes of a body that was too large to store. Such a body is empty and
    cannot be replayed.
    """

    type: BodyType = "none"
    text: str = ""
    base64: str = ""
    content_type: Text = ""
    clipped: Count | None = None


class Payload(Wire, frozen=True, kw_only=True):
    """Headers in order, with repetitions; the body; and properties, a JSON object.

    An HTTP request has the properties ``http.method``, ``http.path``, ``http.query``,
    ``http.scheme``, ``http.host`` and ``http.client``, a response ``http.status``.
    """

    headers: tuple[Header, ...] = ()
    body: Body = Body()
    properties: dict[str, Any] = {}


class ErrorFacts(Wire, frozen=True, kw_only=True):
    """An exception: its class with its module, and its message, redacted."""

    type: Text
    message: Text = ""


class Change(Wire, frozen=True, kw_only=True):
    """Change of one value of the payload by a processor. ``path`` is a JSON pointer over
    ``/headers``, ``/body`` and ``/properties`` (:mod:`reenact.exchange.payload`). An added value
    has no ``before``, a removed one no ``after``."""

    op: Literal["add", "remove", "replace"]
    path: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


class Processor(Wire, frozen=True, kw_only=True):
    """Execution of one step of a route. ``seq`` counts from 1 in the order of starting.
    ``parent_seq`` is the enclosing processor, 0 for none. ``iteration`` is the number of the loop
    iteration or split part, from 0.

    ``lane``, ``first_call`` and ``end_call`` are the recorded calls of the processor: positions of
    that lane in the half-open range, and all calls of lanes spawned meanwhile. ``input`` and
    ``output`` are the arguments and the result of a plain function. ``branch`` is the branch of a
    choice.
    """

    processor_id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    seq: Annotated[int, msgspec.Meta(ge=1)]
    parent_seq: Count = 0
    iteration: Count | None = None
    kind: ProcessorKind = "step"
    started_at: Stamp = 0
    duration: float = 0.0
    status: ProcessorStatus = "completed"
    error: ErrorFacts | None = None
    changes: tuple[Change, ...] = ()
    input: Any = msgspec.UNSET
    output: Any = msgspec.UNSET
    branch: Text = ""
    lane: Text = ""
    first_call: Count = 0
    end_call: Count = 0


class Trace(Wire, frozen=True, kw_only=True):
    """W3C trace context of an exchange: its own span, and the one it came from."""

    trace_id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
    span_id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}$")]
    parent_span_id: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{16})?$")] = ""
    state: Text = ""


class RecordingRef(Wire, frozen=True, kw_only=True):
    """The recording of the exchange's calls: a packed capture, by the digest of its bytes."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: Count
    content_hash: Text = ""
    events: Count = 0


class DriverUse(Wire, frozen=True, kw_only=True):
    """Driver that an app has loaded and Reenact does not record, and how replays treat its
    statements."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    treatment: DriverTreatment = "undeclared"


class Containment(Wire, frozen=True, kw_only=True):
    """Effects that a replay in an app refuses, in addition to unrecorded calls.

    ``files`` is the treatment of writes outside the folders ``scratch``.
    """

    drivers: Annotated[tuple[DriverUse, ...], msgspec.Meta(max_length=200)] = ()
    files: FileWrites = "refuse"
    scratch: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()


class ReplayOf(Wire, frozen=True, kw_only=True):
    """Replay that an exchange belongs to. ``depth`` is 1 for a replay of an original. ``strict``
    replays end at the first divergence. ``containment`` is what was refused while it ran, or None
    if the app agent did not report it."""

    replay_id: Id
    source_exchange_id: Id
    depth: Annotated[int, msgspec.Meta(ge=1)] = 1
    boundaries: Boundaries = "recorded"
    strict: bool = False
    environment_variables: EnvironmentVariables = "current"
    containment: Containment | None = None
    divergences: tuple[dict[str, Any], ...] = ()
    live_calls: Count = 0
    served_calls: Count = 0
    unused_calls: Count = 0


class Exchange(Wire, frozen=True, kw_only=True):
    """Inbound unit of work, from its start payload to its result."""

    exchange_id: Id
    route_id: RouteId
    revision: Text = ""
    code_version: Text = ""
    kind: Kind = "route"
    agent_id: Text = ""
    started_at: Stamp
    duration: float = 0.0
    status: ExchangeStatus = "completed"
    error: ErrorFacts | None = None
    start: Payload
    start_digest: Text = ""
    """Digest of the redacted start payload."""
    redacted: tuple[str, ...] = ()
    """JSON pointers of redacted values in ``start``."""
    not_replayable: Text = ""
    """Reason why the exchange cannot be replayed, or empty."""
    result: Payload | None = None
    processors: tuple[Processor, ...] = ()
    recording: RecordingRef | None = None
    trace: Trace | None = None
    correlation_id: Text = ""
    replay: ReplayOf | None = None


class Route(Wire, frozen=True, kw_only=True):
    """Current route of an app."""

    route_id: RouteId
    revision: Text
    kind: Kind = "route"
    processors: tuple[str, ...] = ()


class Registration(Wire, frozen=True, kw_only=True):
    """Registration of an app agent. Tenant, app and environment must match its key."""

    protocol: int
    agent_id: Id
    app: Id
    environment: Id
    name: Text = ""
    version: Text = ""
    routes: tuple[Route, ...] = ()
    capabilities: tuple[str, ...] = ()
    containment: Containment = Containment()


class Registered(Wire, frozen=True, kw_only=True):
    """Response to a registration. ``command_key`` is the verifier key (``name+id+base64``) of
    command signatures. ``epoch`` counts registrations; a newer one takes over the command stream.
    """

    agent_id: Id
    tenant: Id
    epoch: Count
    command_key: str
    environment_kind: Literal["production", "non-production"] = "production"
    heartbeat_seconds: float = 15.0
    max_batch_bytes: Count = 16_777_216
    max_body_bytes: Count = 1_048_576


class Heartbeat(Wire, frozen=True, kw_only=True):
    """Heartbeat of an app agent, with its running replays and the numbers of unsent and dropped
    exchanges."""

    epoch: Count
    running: tuple[str, ...] = ()
    spooled: Count = 0
    dropped: Count = 0


class Command(Wire, frozen=True, kw_only=True):
    """Signed command. The signature covers ``reenact command 1\\n`` and the canonical JSON of the
    command without its signature (see :mod:`reenact.exchange.command_signature`)."""

    v: int = PROTOCOL
    type: Literal["replay", "cancel"] = "replay"
    command_id: Id
    replay_id: Id
    tenant: Id
    agent_id: Id
    issued_at: Stamp
    expires_at: Stamp
    nonce: Id
    source_exchange_id: Text = ""
    route_id: Text = ""
    revision: Text = ""
    """Required revision of the route, for ``same``; empty for the current one."""
    modified_payload: Payload | None = None
    """The complete edited payload, or None for a replay of the recorded one."""
    payload_digest: Text = ""
    boundaries: Boundaries = "recorded"
    strict: bool = False
    environment_variables: EnvironmentVariables = "current"
    depth: Count = 1
    deadline: Stamp = 0
    """Time at which the replay is cancelled."""
    trace_parent: Text = ""
    signature: str = ""


class ReplaySource(Wire, frozen=True, kw_only=True):
    """Source of a replay. ``redacted`` are the pointers of placeholders in ``payload``."""

    payload: Payload
    redacted: tuple[str, ...] = ()
    recording: RecordingRef | None = None


class StateReport(Wire, frozen=True, kw_only=True):
    """State of a replay that an app agent reports. ``completed`` is never reported, because the
    server receives the exchange."""

    state: Literal["delivered", "running", "failed", "refused", "cancelled"]
    epoch: Count
    code: Text = ""
    message: Text = ""
