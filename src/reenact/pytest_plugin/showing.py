"""What a test's report says of its cassette."""

from __future__ import annotations

import os
import shlex
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntry, ReprFileLocation, ReprTraceback

from reenact.errors import DivergenceError, RecordingError, RecordingMissing, ReenactError
from reenact.pytest_plugin.choosing import Choice, command
from reenact.pytest_plugin.placing import root_of
from reenact.pytest_plugin.stage import Stage
from reenact.pytest_plugin.standing import is_own, own_frames

__all__ = ["show", "told"]


def show(stage: Stage, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[Any]) -> None:
    """A divergence is shown as what it is and where the test asked for it, without our frames."""
    error = excinfo.value
    found = _divergence_in(error)
    if found is not None:
        report.longrepr = _picture(stage, report, found)
    elif isinstance(error, ReenactError) and stage.session is None:
        report.longrepr = _picture(stage, report, error)
    elif stage.session is not None and stage.session.failed_with is not None:
        from reenact.engine.divergence.text_renderer import render_divergence

        report.sections.append(
            ("reenact: the test diverged", render_divergence(stage.session.failed_with))
        )
        _explain(stage, report, stage.session.failed_with)


def _divergence_in(error: BaseException) -> DivergenceError | None:
    if isinstance(error, DivergenceError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_divergence_in, error.exceptions)), None)
    return None


def _picture(stage: Stage, report: pytest.TestReport, error: BaseException) -> Any:
    own = own_frames(error)
    if isinstance(error, DivergenceError):
        if stage.where and not own:
            report.sections.append(("reenact: where it diverged", stage.where.rstrip()))
        how = f"{command(stage.item, 'update')}\nmakes again what differs, and nothing else"
        report.sections.append(("reenact: if the change is intended", how))
        _explain(stage, report, error.divergence)
    crash = _crash(stage, error, own)
    if not isinstance(error, DivergenceError) or not own:
        return _plain(_text(stage, error), crash)
    shown: Any = pytest.ExceptionInfo.from_exception(error).getrepr(
        style="short", chain=False, tbfilter=_only_own
    )
    return ExceptionChainRepr([(shown.reprtraceback, crash, None)])


def _explain(stage: Stage, report: pytest.TestReport, found: Any) -> None:
    """Keep what diverged for ``reenact explain``, and say what to type."""
    from reenact.engine.divergence.model import Divergence
    from reenact.runs.kept import keep, surroundings

    if stage.choice is None or stage.choice.writes or not isinstance(found, Divergence):
        return
    kept = {
        "version": 1,
        "mode": "replay",
        "status": "diverged",
        "divergences": [found.to_json()],
        "environment": surroundings(),
        "test": command(stage.item),
    }
    if keep(root_of(stage.item.config), stage.choice.path, kept):
        here = stage.item.config.invocation_params.dir
        how = shlex.join(["reenact", "explain", os.path.relpath(stage.choice.path, here)])
        report.sections.append(("reenact: why, and what would settle it", how))


def _plain(text: str, crash: ReprFileLocation) -> ExceptionChainRepr:
    """An error that comes from no line of the test."""
    lines = [f"E   {line}".rstrip() for line in text.splitlines()]
    entry = ReprEntry(lines, None, None, None, "short")
    return ExceptionChainRepr([(ReprTraceback([entry], None, "short"), crash, None)])


def _text(stage: Stage, error: BaseException) -> str:
    lines = [f"{type(error).__name__}: {error}"]
    if isinstance(error, ReenactError) and error.hint:
        lines.append(f"hint: {error.hint}")
    if isinstance(error, RecordingError) and not isinstance(error, RecordingMissing):
        lines.append(f"The cassette is {stage.place()}. To record the test again:")
        lines.append(f"  {command(stage.item, 'rewrite')}")
    return "\n".join(lines)


def _only_own(excinfo: pytest.ExceptionInfo[Any]) -> Any:
    return excinfo.traceback.filter(lambda entry: is_own(entry.frame.raw))


def _crash(stage: Stage, error: BaseException, own: list[tuple[str, int]]) -> ReprFileLocation:
    path, line = own[-1] if own else (str(stage.item.path), (stage.item.location[1] or 0) + 1)
    return ReprFileLocation(path, line, f"{type(error).__name__}: {_line(error)}")


def _line(error: BaseException) -> str:
    if isinstance(error, DivergenceError):
        return error.message
    return str(error)


_OURS = frozenset({"version", "mode", "status"})
_CHANGES = ("changed", "added", "dropped")
_SHOWN = 5


def told(stage: Stage) -> dict[str, Any]:
    """What the report says for machines, in values that any process can read."""
    session, choice = stage.session, stage.choice
    if session is None or choice is None:
        return {"did": "refused", "mode": "", "cassette": stage.place(), "notes": stage.notes}
    report = session.report().to_json()
    did = _deed(stage, choice, report)
    if did != "diverged":
        from reenact.runs.kept import forget

        forget(root_of(stage.item.config), choice.path)
    return {
        "did": did,
        "mode": choice.mode,
        "cassette": stage.place(),
        **{name: value for name, value in report.items() if name not in _OURS},
        "notes": [*stage.notes, *_changed(report)],
    }


def _changed(report: dict[str, Any]) -> list[str]:
    """What an update has changed, in a few lines."""
    found = {name: report.get(name, []) for name in _CHANGES}
    if not any(found.values()):
        return []
    counts = ", ".join(f"{len(ones)} {name}" for name, ones in found.items())
    lines = [f"{name}: {one['detail']}" for name in _CHANGES for one in found[name][:_SHOWN]]
    return [f"{report['kept']} kept, {counts}", *lines]


_DEEDS = {"replay": "replayed", "record": "recorded", "rewrite": "recorded", "off": "live"}


def _deed(stage: Stage, choice: Choice, report: dict[str, Any]) -> str:
    """One of the deeds that are counted at the end."""
    if stage.was_skipped:
        return "skipped"
    if choice.writes and stage.session is not None and stage.session.manifest is None:
        return "not kept"
    if not choice.writes and report["divergences"]:
        return "diverged"
    if choice.mode == "update" and not _changed(report):
        return "replayed"
    return _DEEDS.get(choice.mode, "updated")
