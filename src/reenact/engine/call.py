"""Calls as data, recorded calls, and the possible decisions about a call.

:class:`Call` is the description of a call that a boundary creates before the call is made.
:class:`Entry` is a recorded call. A decision is one of :class:`Serve`, :class:`GoLive`,
:class:`Pass`, :class:`Reexecute` and :class:`Refuse`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from reenact.engine.divergence.model import Divergence
from reenact.errors import PolicyRefused
from reenact.format.event import CHUNK, SCHEDULE, Data, Event

__all__ = [
    "CAPABILITIES",
    "CHUNK",
    "CUT_OFF",
    "DRAWS",
    "DRAWS_ENTRY",
    "PAIRS",
    "SCHEDULE",
    "SLEEP",
    "SOURCES",
    "Call",
    "Decision",
    "Entry",
    "GoLive",
    "Pass",
    "Reexecute",
    "Refuse",
    "Serve",
    "draw_call",
]

DRAWS: Final = frozenset({"clock", "rng", "env"})
"""Sources with immediate results: they have positions, and no delivery."""

DRAWS_ENTRY: Final = "draws"
RECORDED_DRAW_SOURCES: Final = {DRAWS_ENTRY: "clock rng env process"}
"""Entry of a manifest's environment: these sources were recorded.

Without it (net tapes, recordings made by hand or imported) draws are live.
"""

SLEEP: Final = "sleep"
"""Source of sleeps: deliveries whose number can differ."""

CUT_OFF: Final = ("abandoned", "cancelled", "unfinished")
"""Ends of a stream before its last chunk: stopped, cancelled, or killed."""

PAIRS: Final = {"llm_request": "llm_response", "tool_call": "tool_result"}
"""Calls that are two events, one when the call starts and one when it completes."""

CAPABILITIES: Final = {
    "network": "net.fetch",
    "llm": "llm.call",
    "process": "process.exec",
    "clock": "time.now",
    "rng": "random",
    "env": "env.read",
    "fs": "fs.read",
    "mcp": "mcp.call",
}
"""The capability that a source needs. A source of the program's own is a capability itself."""

SOURCES: Final = {
    **{capability: source for source, capability in CAPABILITIES.items()},
    "net.stream": "network",
    "fs.write": "fs",
}
"""The source that calls under a capability are recorded with."""

CallType = Literal[
    "llm_request", "tool_call", "nondeterministic", "state_mutation", "run_start", "run_end"
]


Says = Callable[[Any], Data]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Description of one call, created by a boundary before the call is made.

    The call owns ``request``, which must not be changed any more. ``instant`` calls do not wait for
    their turn in the order of deliveries. ``method`` and ``url`` are for the net rules.
    """

    type: CallType
    capability: str
    operation: str
    request: Data
    source: str = ""
    key: str = ""
    """Stated by callers that have a key of their own; otherwise the digest of the request."""
    instant: bool = False
    observed: bool = False
    """The program only reports that something happened, and expects no result."""
    returns_failure: bool = False
    """A recorded failure is returned as data, as any other result, and not raised."""
    nests: bool = False
    """Calls inside the call have a lane of their own, as in a tool."""
    call_id: str = ""
    replay: Literal["stub", "re-execute", "pass"] = "stub"
    """Replay action of a nesting call, unless a rule of the policy specifies one."""
    volatile: tuple[str, ...] = ()
    """Places of the completing event, as paths, that differ in every run and do not count."""
    extra: Data = {}
    """Fields of the request event that are not compared."""
    method: str = ""
    url: str = ""
    raw_hash: str = ""
    """Of boundaries that can tell: what has the same one is the same request, to the letter."""
    says: Says | None = None
    """Function from a result to fields of the completing event, used by lenses."""
    plain: Call | None = None
    """Form of the call in recordings without a lens for it."""

    @property
    def kind(self) -> str:
        """``llm``, ``tool``, or the source: what policies allow by name."""
        if self.type == "llm_request":
            return "llm"
        if self.type == "tool_call":
            return "tool"
        return self.source or self.type

    @property
    def is_simple(self) -> bool:
        """True for a call with a result, a turn of its own, and no calls inside it."""
        return not (self.nests or self.observed or self.instant)

    @property
    def is_sketch(self) -> bool:
        """True if only the hash of the request is known."""
        return bool(self.raw_hash) and not self.request

    @property
    def draws(self) -> bool:
        """Is this a draw of the clock, of chance, or of another small fact?"""
        return self.instant and self.type == "nondeterministic" and not self.request


def draw_call(source: str, key: str, *, observed: bool = False) -> Call:
    """Return the call of a single draw."""
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES.get(source, source),
        operation="",
        request={},
        source=source,
        key=key,
        instant=True,
        observed=observed,
    )


class Entry(msgspec.Struct, eq=False, kw_only=True):
    """One recorded call: its opening event, and the event that completed it.

    ``closing`` is the opening itself for a call that is one event, and None while it has not been
    read, or was never written.
    """

    opening: Event
    kind: str
    operation: str
    key: str
    position: int
    raw_hash: str = ""
    answer: bytes = b""
    """Result in its stored encoding, where that is short and complete."""
    call_id: str = ""
    closing: Event | None = None
    unanswered: bool = False
    """Cancelled or unfinished in the recording: never answered in a replay."""
    inner: str | None = None
    instant: bool = False
    used: bool = False
    start: int = 0
    """Draws of a run that have been used before."""
    count: int = 1
    """Positions of its lane that it takes: a run of draws has several."""
    passed: bool = False
    """A lenient run has gone past it: still usable, no longer waited for."""

    def go_on_at(self, start: int, name: str) -> None:
        """Of a run of draws, those before ``start`` are behind us; ``name`` is the next one."""
        gone = start - self.start
        self.position += gone
        self.count -= gone
        self.start = start
        self.kind, _, self.key = name.partition(" ")

    def let_go(self) -> None:
        """Release the memory of the recorded data until they are read again."""
        self.opening.let_go()
        if self.closing is not None:
            self.closing.let_go()

    @property
    def seq(self) -> int:
        return self.opening.seq

    @property
    def type(self) -> str:
        return self.opening.type

    @property
    def lane(self) -> str:
        return self.opening.lane


class Serve(msgspec.Struct, frozen=True, gc=False):
    """Serve the recorded result. ``divergence`` when a lenient run serves something else."""

    entry: Entry
    divergence: Divergence | None = None


class GoLive(msgspec.Struct, frozen=True, gc=False):
    """Make the call and record it. ``answer``, the data of a completing event, is what comes of it
    instead, where a run is forked with another answer."""

    answer: Data | None = None


class Pass(msgspec.Struct, frozen=True, gc=False):
    """Make the call and record nothing. ``inside``: what it does in turn is looked at."""

    inside: bool = False


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Do not make the call. ``entry`` is the recorded refusal that this one repeats."""

    error: PolicyRefused | None = None
    divergence: Divergence | None = None
    entry: Entry | None = None


class Reexecute(msgspec.Struct, frozen=True, gc=False):
    """Run the code of the call again, what it calls is served; compare what comes out."""

    entry: Entry


Decision = Serve | GoLive | Pass | Refuse | Reexecute
