"""What is recorded of a file, and what a replay compares."""

from __future__ import annotations

from typing import Any

from reenact.boundaries.files.roots import Watched
from reenact.engine.call import Call
from reenact.engine.codecs import PlainCodec
from reenact.errors import DivergenceError
from reenact.format.event import Data

__all__ = ["change", "check_allowed", "note", "reading", "upcoming"]


class _Seen(PlainCodec):
    """Answers that are read from the file itself; ``kept`` is recorded with them."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def dump(self, call: Call, result: Any) -> Data:
        more = {} if self._kept is None else {"response": self._kept}
        return {"instant": True, **more}

    def load(self, call: Call, data: Data) -> Any:
        return data.get("response")


def reading(file: Watched, verb: str, seen: Data) -> Call:
    """The program reads what is ``seen`` in the file or folder."""
    return Call(
        type="nondeterministic",
        capability="fs.read",
        operation=f"{verb} {file.name}",
        request={"path": file.name, **seen},
        source="fs",
        instant=True,
    )


def upcoming(file: Watched, verb: str) -> tuple[Data, bool] | None:
    """What the recorded program saw when it read ``file``, and whether the recording has what came
    with it; None if that is not what it did next, here, or if a rule lets it pass."""
    entry, operation = file.session.decisions.upcoming(), f"{verb} {file.name}"
    if entry is None or entry.kind != "fs" or entry.operation != operation:
        return None
    if file.session.settings.policy.action_for("fs.read", operation) == "pass":
        return None
    data = entry.opening.data
    request = data.get("request")
    if not isinstance(request, dict):
        return None
    seen = {name: item for name, item in request.items() if name != "path"}
    return seen, "response" in data


def change(kind: str, details: Data) -> Call:
    """The program has changed a file."""
    return Call(
        type="state_mutation",
        capability="fs.write",
        operation=kind,
        request={"type": kind, "details": details},
        instant=True,
        observed=True,
    )


def note(file: Watched, call: Call, kept: Any = None) -> Any:
    """Record ``call``, with what is ``kept``. In a replay: what was kept with the recorded one.

    A call that differs is a divergence; a lenient replay goes on without an answer. Raises
    :class:`PolicyRefused` where the policy does.
    """
    session = file.session
    try:
        return session.gateway.call(call, lambda: None, _Seen(kept))
    except DivergenceError:
        if session.machine.strict:
            raise
        return None


def check_allowed(file: Watched, kind: str) -> None:
    """Raise :class:`PolicyRefused`, before anything has happened to ``file``, where the policy does
    not allow such a change."""
    session = file.session
    with session.lock:
        refusal = session.machine.refusal(change(kind, {"path": file.name}))
    if refusal is not None:
        raise session.redacted(refusal)
