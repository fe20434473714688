"""``reenact.tools.process``: a tool that controls commands running in the background.

Each command belongs to the session that started it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Annotated, Any, Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from reenact._system import start_clock
from reenact.engine.call import CAPABILITIES, Call
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.tools.command import TAIL, Command, with_code
from reenact.tools.tool import tool

__all__ = [
    "Background",
    "look",
    "process",
]

FINISHED: Final = 50
"""Number of ended commands that are kept until they are cleared."""

_POLL_SECONDS: Final = 2.0
"""Seconds within which a killed command ends."""


def look(operation: str, request: Data, live: Callable[[], Data]) -> Data:
    """Return the state of a command from ``live``, or the recorded state.

    The progress of a command at a given moment is not deterministic, so it is recorded, and served
    when a replay re-executes the tool.
    """
    session = current()
    if session is None or session.mode == "off":
        return live()
    call = Call(
        type="nondeterministic",
        capability=CAPABILITIES["process"],
        operation=operation,
        request=request,
        source="process",
    )
    found: Data = session.gateway.call(call, live)
    return found


class Background:
    """The commands of one session, or of none. Thread-safe."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._count = 0

    @classmethod
    def here(cls) -> Background:
        """Return the background commands of the current session."""
        session = current()
        if session is None or session.mode == "off":
            return cls._alone()
        with _making:
            found = _known.get(session)
            if found is None or found._pid != os.getpid():  # a forked child has none yet
                found = _known[session] = cls()
                session.before_close(found.kill_all)
        return found

    @classmethod
    def _alone(cls) -> Background:
        global _of_none
        with _making:
            if _of_none is None or _of_none._pid != os.getpid():
                _of_none = cls()
                atexit.register(_of_none.kill_all)
            return _of_none

    def add(self, command: Command) -> str:
        """Register ``command`` and return its id.

        In a session the id contains the lane of the call, which is the same in every run.
        """
        with self._lock:
            name = self._name()
            self._commands[name] = command
            ended = [key for key, one in self._commands.items() if one.ended.is_open]
            for key in ended[:-FINISHED]:
                del self._commands[key]
            return name

    def _name(self) -> str:
        session = current()
        self._count += 1
        if session is None or session.mode == "off":
            return f"exec-{self._count}"
        name = f"exec-{session.lanes.current().name}"
        return name if name not in self._commands else f"{name}-{self._count}"

    def get(self, name: str) -> Command | None:
        """Return the command with this id, or None."""
        return self._commands.get(name)

    def remove(self, name: str) -> None:
        """Remove the command."""
        with self._lock:
            self._commands.pop(name, None)

    def __iter__(self) -> Iterator[tuple[str, Command]]:
        """Iterate over the ids and commands, latest first."""
        with self._lock:
            return iter(list(reversed(self._commands.items())))

    def kill_all(self) -> None:
        """End all commands and wait for them."""
        if self._pid != os.getpid():
            return
        running = [command for _, command in self if not command.ended.is_open]
        session = current()
        for command in running:
            command.kill()
        with nullcontext() if session is None else session.waiting_elsewhere():
            for command in running:
                command.ended.wait(_POLL_SECONDS)


_making = threading.Lock()
_known: WeakKeyDictionary[Session, Background] = WeakKeyDictionary()
_of_none: Background | None = None


Action = Literal["list", "poll", "log", "write", "submit", "kill", "clear", "remove"]

MOST_LINES: Final = 200
"""Default number of lines for ``log``."""

LONGEST: Final = 30_000
"""Milliseconds that ``poll`` waits, at most."""

_SOON: Final = 2.0
"""Seconds within which a killed command ends."""

_NOTHING: Final = "(no new output)"


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a call. ``wrong`` describes a failed write to the command."""

    name: str
    command: Command | None
    data: str
    eof: bool
    offset: int | None
    limit: int | None
    timeout: int
    wrong: str = ""


@tool(name="process", volatile=("durationMs",))
def process(
    action: Annotated[Action, "what to do"],
    sessionId: Annotated[
        str | None, "the id of the command; required for all actions except list"
    ] = None,
    data: Annotated[str, "the text for its standard input"] = "",
    eof: Annotated[bool, "close its standard input after that"] = False,
    offset: Annotated[int | None, "the first line of the log, counted from 0"] = None,
    limit: Annotated[int | None, "the maximum number of lines of the log"] = None,
    timeout: Annotated[int, "milliseconds that poll waits for new output"] = 0,
) -> Data:
    """Query and control commands that run in the background.

    ``list`` returns all commands. ``poll`` returns new output since the last poll, and the exit code
    of an ended command. ``log`` returns lines of the complete output. ``write`` sends input, and
    ``submit`` sends the key Enter. ``kill`` ends a command. ``clear`` removes an ended command from
    the list, and ``remove`` any command. An action that fails has the ``status`` ``failed`` and the
    reason in ``text``.
    """
    here = Background.here()
    name = sessionId or ""
    asked = _Asked(
        name=name,
        command=here.get(name),
        data="\r" if action == "submit" else data,
        eof=eof,
        offset=offset,
        limit=limit,
        timeout=min(max(0, timeout), LONGEST),
    )
    command = asked.command
    if command is not None and action in ("write", "submit"):
        wrong = command.tell(asked.data.encode(), last=eof)
        asked = msgspec.structs.replace(asked, wrong=wrong)
    found = look(f"process.{action}", {}, lambda: _LOOKS[action](asked, here))
    if command is not None and action in ("clear", "remove") and found["status"] != "failed":
        here.remove(name)
    if "exitCode" in found and action == "poll":
        found = {**found, "durationMs": 0 if command is None else command.took_ms}
    return found


# Observations of background commands


def _listed(asked: _Asked, here: Background) -> Data:
    now = start_clock()()
    sessions = [_line(name, command, now) for name, command in here]
    lines = [f"{one['sessionId']} {one['status']:<9} :: {one['name']}" for one in sessions]
    text = "\n".join(lines) or "No running or recent sessions."
    return {"status": "completed", "sessions": sessions, "text": text}


def _line(name: str, command: Command, now: int) -> Data:
    with command.lock:
        found: Data = {
            "sessionId": name,
            "status": "running",
            "startedAt": command.started_at,
            "runtimeMs": max(0, now - command.started_at),
            "command": command.text,
            "name": _short(command.text),
            "tail": command.output.tail(TAIL),
            "truncated": bool(command.output.all.left_out),
        }
        if command.cwd is not None:
            found["cwd"] = command.cwd
        if command.ended.is_open:
            return found | {"runtimeMs": command.took_ms} | command.outcome
        return found | {"pid": command.pid}


def _polled(asked: _Asked, here: Background) -> Data:
    command = asked.command
    if command is None:
        return _unknown(asked)
    command.wait_for_news(asked.timeout / 1e3)
    with command.lock:
        new = command.output.take_new().strip("\r\n") or _NOTHING
        if not command.ended.is_open:
            return _is_running(asked, f"{new}\n\nProcess still running.")
        ended = command.outcome
        said = command.output.all.text()
        code = ended["exitCode"] or 0
        return {
            **ended,
            "sessionId": asked.name,
            "name": _short(command.text),
            "aggregated": with_code(said, code) if ended["status"] == "completed" else said,
            "truncated": bool(command.output.all.left_out),
            "text": f"{new}\n\nProcess exited with {_how(ended)}.",
        }


def _logged(asked: _Asked, here: Background) -> Data:
    command = asked.command
    if command is None:
        return _unknown(asked)
    with command.lock:
        said, left_out = command.output.all.kept(), command.output.all.left_out
        status = command.outcome["status"] if command.ended.is_open else "running"
    lines = said.splitlines()
    chosen = _chosen(lines, asked.offset, asked.limit)
    text = "\n".join(chosen) or "(no output yet)"
    if asked.offset is None and asked.limit is None and len(lines) > MOST_LINES:
        text += f"\n\n[the last {MOST_LINES} of {len(lines):,} lines; offset and limit give others]"
    return {
        "status": status,
        "sessionId": asked.name,
        "name": _short(command.text),
        "totalLines": len(lines),
        "totalChars": len(said),
        "truncated": bool(left_out),
        "text": text,
    }


def _chosen(lines: list[str], offset: int | None, limit: int | None) -> list[str]:
    """Return the chosen lines. Without an offset, they are the last ones."""
    if offset is None:
        count = MOST_LINES if limit is None else max(0, limit)
        return lines[len(lines) - min(count, len(lines)) :]
    start = max(0, offset)
    return lines[start : None if limit is None else start + max(0, limit)]


def _written(asked: _Asked, here: Background) -> Data:
    command = asked.command
    if command is None or command.ended.is_open:
        return _unknown(asked, "active ")
    if asked.wrong:
        return _failed(f"Session {asked.name} {asked.wrong}.")
    closed = " (stdin closed)" if asked.eof else ""
    return _is_running(
        asked, f"Wrote {len(asked.data.encode()):,} bytes to session {asked.name}{closed}."
    )


def _killed(asked: _Asked, here: Background) -> Data:
    if asked.command is None:
        return _unknown(asked, "active ")
    _end(asked.command)
    return {"status": "completed", "text": f"Session {asked.name} was killed."}


def _end(command: Command) -> None:
    command.kill()
    command.ended.wait(_SOON)


def _cleared(asked: _Asked, here: Background) -> Data:
    if asked.command is None or not asked.command.ended.is_open:
        return _unknown(asked, "finished ")
    return {"status": "completed", "text": f"Cleared session {asked.name}."}


def _removed(asked: _Asked, here: Background) -> Data:
    if asked.command is None:
        return _unknown(asked)
    _end(asked.command)
    return {"status": "completed", "text": f"Removed session {asked.name}."}


_LOOKS: Final[dict[str, Callable[[_Asked, Background], Data]]] = {
    "list": _listed,
    "poll": _polled,
    "log": _logged,
    "write": _written,
    "submit": _written,
    "kill": _killed,
    "clear": _cleared,
    "remove": _removed,
}


def _is_running(asked: _Asked, text: str) -> Data:
    assert asked.command is not None
    name = _short(asked.command.text)
    return {"status": "running", "sessionId": asked.name, "name": name, "text": text}


def _unknown(asked: _Asked, what: str = "") -> Data:
    if not asked.name:
        return _failed("sessionId is required for this action.")
    return _failed(f"No {what}session found for {asked.name}.")


def _failed(text: str) -> Data:
    return {"status": "failed", "text": text}


def _how(ended: dict[str, Any]) -> str:
    if ended["timedOut"]:
        return "a time-out"
    signal, code = ended["exitSignal"], ended["exitCode"]
    return f"code {code}" if signal is None else f"signal {signal}"


def _short(command: str) -> str:
    """Return the beginning of a command on one line."""
    words = " ".join(command.split())
    return words if len(words) <= 80 else f"{words[:79]}…"
