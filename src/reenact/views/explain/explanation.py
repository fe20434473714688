"""Explanation of a divergence: its recording, nearby calls, likely causes and remedies."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reenact.engine.divergence.causes import SURE, Cause, Remedy
from reenact.engine.divergence.model import Divergence
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.store.source import SeekableSource
from reenact.views.explain.call_causes import (
    find_environment_causes,
    find_file_causes,
    find_order_causes,
    is_another_call,
)
from reenact.views.explain.case import Case, NearbyCall, ReplayCommands, merged, settles_all
from reenact.views.explain.model_causes import find_model_causes
from reenact.views.explain.value_causes import find_value_causes
from reenact.views.recorded_calls import RecordedCall, read_run

__all__ = [
    "VERSION",
    "Explanation",
    "ReportedDivergence",
    "causes_of",
    "combined_remedy",
    "explain",
    "read_divergences",
]

VERSION = 1
_BEFORE, _AFTER = 3, 3
_RETRIED = frozenset({408, 409, 425, 429})


class ReportedDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """One divergence of a report, with the context from the report."""

    divergence: Divergence
    recording: str | None = None
    content_hash: str | None = None
    earlier: frozenset[int] = frozenset()
    """Recorded events that have diverged before it."""
    environment: dict[str, str] = {}
    arguments: dict[str, list[str]] = {}
    only: str = ""
    """``network`` where everything else was live."""
    test: str = ""
    """Command that runs the diverged test."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """``settle`` is one policy that settles the call, where there is one."""

    case: Case
    causes: list[Cause]
    settle: Remedy | None


def read_divergences(found: Any) -> list[ReportedDivergence]:
    """Return the divergences in a report of a run, session, test or ``regress``, or a single
    divergence. Raises :class:`UsageError` for any other document."""
    if isinstance(found, dict) and "code" in found:
        return [ReportedDivergence(divergence=Divergence.from_json(found))]
    if isinstance(found, dict) and isinstance(found.get("divergences"), list):
        return _of_run(found)
    if isinstance(found, dict) and isinstance(found.get("groups"), list):
        return [*_of_regress(found["groups"])]
    raise UsageError(
        "the file contains neither a report nor a divergence",
        hint="reenact run --replay … --report FILE writes one",
    )


def _of_run(found: dict[str, Any]) -> list[ReportedDivergence]:
    listed: list[ReportedDivergence] = []
    earlier: set[int] = set()
    for one in found["divergences"]:
        divergence = Divergence.from_json(one)
        listed.append(
            ReportedDivergence(
                divergence=divergence,
                recording=_text(found.get("recording")) or None,
                content_hash=_text(found.get("contentHash")) or None,
                earlier=frozenset(earlier),
                environment=_texts(found.get("environment")),
                arguments=_lists(found.get("arguments")),
                only=_text(found.get("only")),
                test=_text(found.get("test")),
            )
        )
        if divergence.event_seq is not None:
            earlier.add(divergence.event_seq)
    return listed


def _of_regress(groups: list[Any]) -> list[ReportedDivergence]:
    listed: list[ReportedDivergence] = []
    for group in groups:
        first = group.get("first") if isinstance(group, dict) else None
        one = first.get("divergence") if isinstance(first, dict) else None
        if isinstance(first, dict) and isinstance(one, dict):
            recording = _text(first.get("recording")) or None
            listed.append(
                ReportedDivergence(divergence=Divergence.from_json(one), recording=recording)
            )
    return listed


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: item for name, item in items if isinstance(item, str)}


def _lists(value: Any) -> dict[str, list[str]]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: [*map(str, item)] for name, item in items if isinstance(item, list)}


def explain(
    told: ReportedDivergence, recording: Path | None, source: SeekableSource | None
) -> Explanation:
    """Explain a divergence.

    ``source`` is the open ``recording``. Both are None if it is not available.
    """
    case = Case(
        divergence=told.divergence,
        again=_again(told, recording, source),
        now=told.environment,
        recorded_arguments=told.arguments.get("recorded", []),
        given_arguments=told.arguments.get("given", []),
    )
    if source is not None:
        case = _with_recording(case, told, source)
    causes = causes_of(case)
    return Explanation(case=case, causes=causes, settle=combined_remedy(case, causes))


def _with_recording(case: Case, told: ReportedDivergence, source: SeekableSource) -> Case:
    manifest = source.manifest()
    steps = read_run(source).lanes.get(told.divergence.lane, [])
    calls = [step for step in steps if step.kind not in ("run_start", "run_end")]
    at = _place(calls, told.divergence)
    near = calls[max(0, at - _BEFORE) : at + _AFTER]
    return msgspec.structs.replace(
        case,
        near=[
            _near(step, told, number < at) for number, step in enumerate(near, max(0, at - _BEFORE))
        ],
        left=max(0, len(calls) - at - 1) if at < len(calls) else 0,
        status=manifest.status,
        then={**manifest.environment, **({"draws": ""} if told.only else {})},
        policy="" if manifest.policy is None else manifest.policy.id,
    )


def _place(calls: Sequence[RecordedCall], divergence: Divergence) -> int:
    """Return the index of the call where the lane diverged, or the number of calls if the lane has
    none left."""
    seq = divergence.event_seq
    if seq is None:
        return len(calls)
    return next((at for at, step in enumerate(calls) if step.seq >= seq), len(calls))


def _near(step: RecordedCall, told: ReportedDivergence, before: bool) -> NearbyCall:
    here = step.seq == told.divergence.event_seq
    differs = here or step.seq in told.earlier
    return NearbyCall(
        seq=step.seq,
        lane=step.lane,
        type=step.opening.type,
        kind=step.kind,
        name=step.name,
        data=step.asked,
        became="differs" if differs else "same" if before else "not",
        failed=_failed(step.answered),
    )


def _failed(answered: Data) -> str:
    error, response = answered.get("error"), answered.get("response")
    if isinstance(error, dict):
        return str(error.get("class", "error")).rpartition(".")[2]
    status = response.get("status") if isinstance(response, dict) else None
    if type(status) is int and (status >= 500 or status in _RETRIED):
        return str(status)
    return ""


def _again(
    told: ReportedDivergence, recording: Path | None, source: SeekableSource | None
) -> ReplayCommands:
    if told.test:
        return ReplayCommands(
            replay=told.test,
            update=f"{told.test} --reenact-update",
            add=f"{told.test} --reenact-mode=record_missing",
            rewrite=f"{told.test} --reenact-rewrite",
        )
    argv = _argv(source)
    if recording is None or not argv:
        return _in_code(recording)
    return _commands(recording, argv, told.arguments)


def _in_code(recording: Path | None) -> ReplayCommands:
    """Return the commands for a session that a program opens itself."""
    place = "…"
    if recording is not None:
        place = f"{'tape' if recording.is_file() else 'capture'}={json.dumps(str(recording))}"

    def session(mode: str) -> str:
        return f'reenact.session({place}, mode="{mode}")'

    return ReplayCommands(
        replay=session("replay"),
        update=session("update"),
        add=session("record_missing"),
        rewrite=session("rewrite"),
    )


def _argv(source: SeekableSource | None) -> list[str]:
    first = source.at(1) if source is not None and len(source) else None
    argv = first.data.get("argv") if first is not None and first.type == "run_start" else None
    return [*map(str, argv)] if isinstance(argv, list) else []


def _commands(recording: Path, argv: list[str], arguments: dict[str, list[str]]) -> ReplayCommands:
    then, now = arguments.get("recorded", []), arguments.get("given", [])
    head = argv[: len(argv) - len(then)]
    given = shlex.join([*head, *now] if then != now else argv)
    where = shlex.quote(str(recording))
    net = recording.is_file()
    to, of = ("--record-net-to", "--replay-net-from") if net else ("--capture", "--replay")
    base = f"reenact run {to} {where}"
    return ReplayCommands(
        replay=f"reenact run {of} {where} -- {given}",
        update=f"{base} --mode update -- {given}",
        add=f"{base} --mode record_missing -- {given}",
        rewrite=f"{base} --mode rewrite -- {given}",
        fork=None if net else (f"reenact fork {where}", f"-- {given}"),
        recorded=f"reenact run {of} {where} -- {shlex.join(argv)}" if then != now else "",
    )


def causes_of(case: Case) -> list[Cause]:
    """Return the causes, most likely first; empty if unknown.

    A typical value (a time, an id, an order) is stronger evidence than its location. A different
    call is not compared value by value.
    """
    ordered = [*find_order_causes(case)]
    around = [*find_environment_causes(case)]
    if ordered and not _is_same_call(case):
        return _sorted([*around, *ordered])
    if files := [*find_file_causes(case)]:
        return _sorted([*around, *files])
    by_value = [*find_value_causes(case)]
    explained = {path for cause in by_value for path in cause.explains}
    rest = _without(case, explained)
    return _sorted([*around, *ordered, *by_value, *find_model_causes(rest)])


def _is_same_call(case: Case) -> bool:
    """Return whether the recorded call is the intended one with changed content."""
    mismatch = case.divergence.code == "event_payload_mismatch"
    return mismatch and not is_another_call(case) and not _has_same(case)


def _has_same(case: Case) -> bool:
    return any(one.score == 1 for one in case.divergence.nearest)


def _without(case: Case, paths: set[str]) -> Case:
    left = [gap for gap in case.divergence.paths if gap.path not in paths]
    divergence = msgspec.structs.replace(case.divergence, paths=left)
    return msgspec.structs.replace(case, divergence=divergence)


def _sorted(found: list[Cause]) -> list[Cause]:
    return sorted(found, key=lambda cause: SURE.index(cause.sure))


def combined_remedy(case: Case, causes: list[Cause]) -> Remedy | None:
    """Return one policy that resolves the divergence, if there is one.

    It combines the first rule of each cause.
    """
    rules = [
        next((way.policy for way in cause.ways if way.policy is not None), None)
        for cause in causes
        if cause.explains
    ]
    policy = merged(rule for rule in rules if rule is not None)
    if not rules or not settles_all(case, policy):
        return None
    shown = ", as far as the report shows it" if case.is_cut else ""
    return Remedy(text=f"With this in the policy the call matches{shown}.", policy=policy)
