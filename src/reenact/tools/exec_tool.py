"""``reenact.tools.exec``: a shell command as a tool."""

from __future__ import annotations

from typing import Annotated, Final

from reenact.engine.session.current import current
from reenact.errors import CommandFailed
from reenact.format.event import Data
from reenact.tools.command import MOST, TAIL, Command, Tail, launch, outcome, with_code
from reenact.tools.process_tool import Background, look
from reenact.tools.tool import tool

__all__ = ["exec"]

TIMEOUT: Final = 1_800
"""Default time limit of a command in seconds."""

YIELD: Final = 10_000
"""Milliseconds after which a command continues in the background by default."""


MOST_FAILED: Final = 8_000
"""Characters that are given of a failure: it is an exception."""


@tool(name="exec", volatile=("durationMs", "pid", "startedAt"))
def exec(
    command: Annotated[str, "the command line, for the shell"],
    workdir: Annotated[
        str | None, "the working directory (default: the directory of the program)"
    ] = None,
    env: Annotated[dict[str, str] | None, "additional environment variables"] = None,
    timeout: Annotated[float, "seconds after which the command is killed"] = TIMEOUT,
    background: Annotated[bool, "run it in the background immediately"] = False,
    yieldMs: Annotated[
        int | None, "milliseconds after which it continues in the background; null: never"
    ] = YIELD,
    pty: Annotated[bool, "run it in a terminal"] = False,
) -> Data:
    """Run a shell command and return its output.

    ``aggregated`` is its standard output and standard error in one text. A nonzero exit code is not
    an error: the end of the text reports it. Timeouts, signals and missing commands raise
    :class:`CommandFailed`. A command that takes long continues in the background: its ``status`` is
    ``running``, and its ``sessionId`` identifies it for the tool ``process``.
    """
    launched = launch(command, workdir, env or {}, listens=background, pty=pty)
    running = Command(launched, command, workdir)
    waits = 0.0 if background else None if yieldMs is None else max(0, yieldMs) / 1e3
    try:
        seen = look("exec.wait", {}, lambda: _wait(running, timeout, waits, keeps=pty))
        running.follow()
        if seen["status"] == "running":
            return _goes_on(running, seen)
        if seen["timedOut"]:
            running.kill()
        _wait_for_end(running)
    except BaseException:
        running.kill()
        raise
    return _told(running, seen, timeout)


def _wait(running: Command, timeout: float, waits: float | None, *, keeps: bool) -> Data:
    """Return the state of the command after ``waits`` seconds.

    ``keeps``: its output is known from this call only, not from its process.
    """
    running.allow(timeout)
    running.ended.wait(waits)
    with running.lock:
        said = running.output.all
        if not running.ended.is_open:
            return {"status": "running", "tail": running.output.tail(TAIL)}
        seen: Data = {"status": "ended", "timedOut": running.timed_out}
        return {**seen, "said": said.kept(), "leftOut": said.left_out} if keeps else seen


def _goes_on(running: Command, seen: Data) -> Data:
    name = Background.here().add(running)
    details: Data = {
        "status": "running",
        "sessionId": name,
        "pid": running.pid,
        "startedAt": running.started_at,
        "tail": seen["tail"],
        "text": f"The command continues in the background as {name}. Use the tool process for it: "
        "list, poll, log, write, kill, clear, remove.",
    }
    return details if running.cwd is None else {**details, "cwd": running.cwd}


def _wait_for_end(running: Command) -> None:
    """Wait for a command that has ended or is about to end, as it did when it was recorded."""
    session = current()
    if session is not None and session.tracks_order and not running.ended.is_open:
        with session.waiting_elsewhere():
            running.ended.wait()
        session.scheduler.awaken(session.runner())
    running.ended.wait()
    if running.failure is not None:
        raise running.failure


def _told(running: Command, seen: Data, timeout: float) -> Data:
    details = outcome(running.code or 0, timeout if seen["timedOut"] else None)
    reason = details.get("reason")
    most = MOST if reason is None else MOST_FAILED
    said = _said(running, seen)
    text = said.text(most)
    details |= {"durationMs": running.took_ms, "truncated": said.is_longer_than(most)}
    if running.cwd is not None:
        details["cwd"] = running.cwd
    if reason is None:
        return {**details, "aggregated": with_code(text, running.code or 0)}
    details["aggregated"] = text
    raise CommandFailed(f"{text}\n\n{reason}" if text else reason, details=details)


def _said(running: Command, seen: Data) -> Tail:
    if "said" not in seen:
        return running.output.all
    said = Tail(MOST, seen["leftOut"])
    said.add(seen["said"])
    return said
