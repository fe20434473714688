"""Cassette information in test reports."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from types import FrameType
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntry, ReprFileLocation, ReprTraceback

from reenact.boundaries.caller_tier import tier_of
from reenact.errors import DivergenceError, RecordingError, RecordingMissing, ReenactError
from reenact.pytest_plugin.cassette import Choice, command, project_root
from reenact.pytest_plugin.item_session import ItemSession

__all__ = ["is_own", "own_frames", "own_stack", "report_facts", "show_divergence"]


def show_divergence(
    item_session: ItemSession, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[Any]
) -> None:
    """Show a divergence in the report with the location in the test, without frames of Reenact.

    Errors that prevented the session are shown in the same way. For any other error after a
    divergence, the divergence is added as a section.
    """
    error = excinfo.value
    found = _divergence_in(error)
    if found is not None:
        report.longrepr = _failure_text(item_session, report, found)
    elif isinstance(error, ReenactError) and item_session.session is None:
        report.longrepr = _failure_text(item_session, report, error)
    elif item_session.session is not None and item_session.session.failed_with is not None:
        from reenact.engine.divergence.text_renderer import render_divergence

        report.sections.append(
            ("reenact: the test diverged", render_divergence(item_session.session.failed_with))
        )
        _explain(item_session, report, item_session.session.failed_with)


def _divergence_in(error: BaseException) -> DivergenceError | None:
    if isinstance(error, DivergenceError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_divergence_in, error.exceptions)), None)
    return None


def _failure_text(
    item_session: ItemSession, report: pytest.TestReport, error: BaseException
) -> Any:
    own = own_frames(error)
    if isinstance(error, DivergenceError):
        if item_session.where and not own:
            report.sections.append(("reenact: where it diverged", item_session.where.rstrip()))
        how = f"{command(item_session.item, 'update')}\nmakes again what differs, and nothing else"
        report.sections.append(("reenact: if the change is intended", how))
        _explain(item_session, report, error.divergence)
    crash = _crash(item_session, error, own)
    if not isinstance(error, DivergenceError) or not own:
        return _plain(_text(item_session, error), crash)
    shown: Any = pytest.ExceptionInfo.from_exception(error).getrepr(
        style="short", chain=False, tbfilter=_only_own
    )
    return ExceptionChainRepr([(shown.reprtraceback, crash, None)])


def _explain(item_session: ItemSession, report: pytest.TestReport, found: Any) -> None:
    """Store the divergence for ``reenact explain``, and add that command to the report."""
    from reenact.engine.divergence.model import Divergence
    from reenact.runs.reports import platform_facts, store_last_report

    if (
        item_session.choice is None
        or item_session.choice.writes
        or not isinstance(found, Divergence)
    ):
        return
    stored = {
        "version": 1,
        "mode": "replay",
        "status": "diverged",
        "divergences": [found.to_json()],
        "environment": platform_facts(),
        "test": command(item_session.item),
    }
    if store_last_report(project_root(item_session.item.config), item_session.choice.path, stored):
        here = item_session.item.config.invocation_params.dir
        how = shlex.join(["reenact", "explain", os.path.relpath(item_session.choice.path, here)])
        report.sections.append(("reenact: why, and what would settle it", how))


def _plain(text: str, crash: ReprFileLocation) -> ExceptionChainRepr:
    """Return an error as text without a traceback."""
    lines = [f"E   {line}".rstrip() for line in text.splitlines()]
    entry = ReprEntry(lines, None, None, None, "short")
    return ExceptionChainRepr([(ReprTraceback([entry], None, "short"), crash, None)])


def _text(item_session: ItemSession, error: BaseException) -> str:
    lines = [f"{type(error).__name__}: {error}"]
    if isinstance(error, ReenactError) and error.hint:
        lines.append(f"hint: {error.hint}")
    if isinstance(error, RecordingError) and not isinstance(error, RecordingMissing):
        lines.append(f"The cassette is {item_session.place()}. To record the test again:")
        lines.append(f"  {command(item_session.item, 'rewrite')}")
    return "\n".join(lines)


def _only_own(excinfo: pytest.ExceptionInfo[Any]) -> Any:
    return excinfo.traceback.filter(lambda entry: is_own(entry.frame.raw))


def _crash(
    item_session: ItemSession, error: BaseException, own: list[tuple[str, int]]
) -> ReprFileLocation:
    path, line = (
        own[-1] if own else (str(item_session.item.path), (item_session.item.location[1] or 0) + 1)
    )
    return ReprFileLocation(path, line, f"{type(error).__name__}: {_line(error)}")


def _line(error: BaseException) -> str:
    if isinstance(error, DivergenceError):
        return error.message
    return str(error)


_OMITTED = frozenset({"version", "mode", "status"})
_CHANGES = ("changed", "added", "dropped")
_SHOWN = 5


def report_facts(item_session: ItemSession) -> dict[str, Any]:
    """Return the data of the JSON report, as values that can be sent to any process.

    If the test did not diverge, its stored divergence is deleted.
    """
    session, choice = item_session.session, item_session.choice
    if session is None or choice is None:
        return {
            "did": "refused",
            "mode": "",
            "cassette": item_session.place(),
            "notes": item_session.notes,
        }
    report = session.report().to_json()
    did = _result_of(item_session, choice, report)
    if did != "diverged":
        from reenact.runs.reports import delete_last_report

        delete_last_report(project_root(item_session.item.config), choice.path)
    return {
        "did": did,
        "mode": choice.mode,
        "cassette": item_session.place(),
        **{name: value for name, value in report.items() if name not in _OMITTED},
        "notes": [*item_session.notes, *_changed(report)],
    }


def _changed(report: dict[str, Any]) -> list[str]:
    """Return a short list of the changes of an update."""
    found = {name: report.get(name, []) for name in _CHANGES}
    if not any(found.values()):
        return []
    counts = ", ".join(f"{len(ones)} {name}" for name, ones in found.items())
    lines = [f"{name}: {one['detail']}" for name in _CHANGES for one in found[name][:_SHOWN]]
    return [f"{report['kept']} kept, {counts}", *lines]


_DEEDS = {"replay": "replayed", "record": "recorded", "rewrite": "recorded", "off": "live"}


def _result_of(item_session: ItemSession, choice: Choice, report: dict[str, Any]) -> str:
    """Return one of :data:`reenact.pytest_plugin.options.DEEDS`."""
    if item_session.was_skipped:
        return "skipped"
    if choice.writes and item_session.session is not None and item_session.session.manifest is None:
        return "not kept"
    if not choice.writes and report["divergences"]:
        return "diverged"
    if choice.mode == "update" and not _changed(report):
        return "replayed"
    return _DEEDS.get(choice.mode, "updated")


_FRAMES = 5


def is_own(frame: FrameType) -> bool:
    """Return True if ``frame`` runs code of the user."""
    return tier_of(frame.f_globals) == "user"


def own_frames(error: BaseException) -> list[tuple[str, int]]:
    """Return the file and line of each frame of the user's code in the traceback of ``error``."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame):
            found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


def own_stack() -> str:
    """Return the innermost frames of the user's code on the current stack, as traceback text."""
    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < _FRAMES:
        if is_own(frame):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format())
