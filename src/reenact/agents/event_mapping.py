"""Mapping from the events of a run's channel to events of the recording.

    stream      phase           capture event       written by
    lifecycle   start           run_start           the mapping
    lifecycle   end, error      run_end             the mapping
    lifecycle   fallback        state_mutation      the mapping
    assistant   delta, end      llm_response        the boundary of the model call
    thinking    delta, end      llm_response        the boundary of the model call
    tool        start           tool_call           the boundary of the tool
    tool        update, result  tool_result         the boundary of the tool
    compaction  start, end      nondeterministic    the decision itself
    error       …               none                the report, and the result of the run
    any other   …               set by its adapter

A replay uses the events of the boundaries, because events on the bus have shortened texts and no
payloads. So the mapping records only events that no boundary records, and never a second event for
a model or a tool. It records only the beginning of the input and the output of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from reenact.agents.event_bus import STREAMS, BusEvent
from reenact.engine.call import Call
from reenact.engine.codecs import PLAIN_CODEC, copy_value
from reenact.engine.session.session import Session
from reenact.errors import ReenactError, UsageError
from reenact.format.event import Data
from reenact.format.event_fields import Nondeterministic, RunEnd, RunStart, StateMutation

__all__ = ["TABLE", "Adapter", "Mapper", "Row", "capture_event"]

Adapter = Callable[[BusEvent], StateMutation | Nondeterministic | None]
"""For one stream of a program's own: the event that is recorded for one of the bus, or None."""

Clean = Callable[[str], str]
Writer = Literal["mapping", "boundary", "nobody"]
Row = tuple[str | None, Writer]

TABLE: Final[dict[tuple[str, str], Row]] = {
    ("lifecycle", "start"): ("run_start", "mapping"),
    ("lifecycle", "end"): ("run_end", "mapping"),
    ("lifecycle", "error"): ("run_end", "mapping"),
    ("lifecycle", "fallback"): ("state_mutation", "mapping"),
    ("assistant", "delta"): ("llm_response", "boundary"),
    ("assistant", "end"): ("llm_response", "boundary"),
    ("thinking", "delta"): ("llm_response", "boundary"),
    ("thinking", "end"): ("llm_response", "boundary"),
    ("tool", "start"): ("tool_call", "boundary"),
    ("tool", "update"): ("tool_result", "boundary"),
    ("tool", "result"): ("tool_result", "boundary"),
    ("compaction", "start"): (None, "nobody"),
    ("compaction", "end"): ("nondeterministic", "boundary"),
    ("error", "divergence"): (None, "nobody"),
    ("error", "warning"): (None, "nobody"),
}
"""By stream and phase: the type of the capture event, and who writes it."""

_SHORT: Final = 120

_NOTHING: Final[Row] = (None, "nobody")


def capture_event(event: BusEvent, clean: Clean = str) -> RunStart | RunEnd | StateMutation | None:
    """Return the capture event that the mapping records for ``event``, or None.

    ``clean`` redacts a text before it is shortened, because a part of a secret is not recognised.
    """
    kind, writer = TABLE.get((event.stream, str(event.data.get("phase"))), _NOTHING)
    if writer != "mapping" or kind is None:
        return None
    made: RunStart | RunEnd | StateMutation = _MADE[kind](event, clean)
    return made


def _run_start(event: BusEvent, clean: Clean) -> RunStart:
    earlier = event.data.get("messages")
    return RunStart(
        input=_beginning(event.data.get("input"), clean),
        session_key=event.session_key,
        extra={"messages": earlier} if earlier else {},
    )


def _run_end(event: BusEvent, clean: Clean) -> RunEnd:
    names = ("status", "stopReason", "error")
    said = {name: event.data[name] for name in names if name in event.data}
    said["output"] = _beginning(event.data.get("output"), clean)
    said["usage"] = {name: some for name, some in event.data["usage"].items() if some}
    return RunEnd.from_data(said)


def _beginning(text: Any, clean: Clean) -> str:
    """Return a short text unchanged, and otherwise its beginning and length.

    A model call contains the complete text.
    """
    whole = clean(str(text))
    return whole if len(whole) <= _SHORT else f"{whole[:_SHORT]}… ({len(whole):,} characters)"


def _fallback(event: BusEvent, clean: Clean) -> StateMutation:
    details = {name: item for name, item in event.data.items() if name != "phase"}
    return StateMutation(kind="model_fallback", details=details)


_MADE: Final[dict[str, Callable[[BusEvent, Clean], Any]]] = {
    "run_start": _run_start,
    "run_end": _run_end,
    "state_mutation": _fallback,
}


class Mapper:
    """Bridge between a channel and a session. ``failures`` lists the errors of adapters.

    Raises :class:`UsageError` for an adapter of a stream that Reenact maps itself.
    """

    def __init__(self, session: Session | None, adapters: Mapping[str, Adapter]) -> None:
        taken = next((name for name in adapters if name in STREAMS), None)
        if taken is not None:
            raise UsageError(
                f"the stream {taken} is mapped already", hint="emit on a stream of your own"
            )
        self.failures: list[str] = []
        self._session = session
        self._adapters = adapters

    def __call__(self, event: BusEvent) -> None:
        """Record the capture event of ``event``, or compare it in a replay.

        Raises the errors of recording, and :class:`DivergenceError` if the recorded run emitted a
        different event.
        """
        session = self._session
        if session is None or session.mode == "off":
            return
        made = capture_event(event, session.redacted_text)
        if isinstance(made, StateMutation):
            session.gateway.call(_mutation(made.to_data()), dict, PLAIN_CODEC)
        elif made is not None:
            session.record_event(made.event_type, made.to_data())
        elif event.stream in self._adapters:
            self._adapt(session, event)

    def _adapt(self, session: Session, event: BusEvent) -> None:
        try:
            made = self._adapters[event.stream](event)
            if made is not None:
                session.record_event(made.event_type, made.to_data())
        except ReenactError:
            raise
        except Exception as error:  # noqa: BLE001 - the program's own code; the result reports it
            text = f"the adapter of {event.stream} failed: {type(error).__name__}: {error}"
            self.failures.append(text)


def _mutation(data: Data) -> Call:
    """Return the call for a change of model. It needs only the capability to call models."""
    return Call(
        type="state_mutation",
        capability="llm.call",
        operation=str(data["type"]),
        request=copy_value(data),
        instant=True,
        observed=True,
    )
