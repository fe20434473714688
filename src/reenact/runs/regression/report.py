"""Reports of a regression: JSON, JUnit XML and HTML."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from collections.abc import Callable, Iterable
from errno import EISDIR
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from reenact._version import __version__
from reenact.diff.sequences import word_diff
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import UsageError
from reenact.runs.regression.jobs import Job
from reenact.runs.regression.outcomes import BAD, Group, Outcome, Tally
from reenact.store.files import replace_file
from reenact.views.html.document import regress_page

__all__ = [
    "Header",
    "check_report_paths",
    "html_page",
    "junit_xml",
    "page_contents",
    "report_json",
    "write_reports",
]

_VERSION = 1


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"


class Header(msgspec.Struct, kw_only=True, rename="camel"):
    """Facts about a regression. ``total`` is the number of recordings to replay."""

    paths: list[str]
    job: Job
    total: int
    engine: str = "local"
    jobs: int | None = None
    shard: str | None = None
    baseline: str | None = None
    started_at: int = 0
    """Milliseconds since the epoch."""
    seconds: float = 0.0
    resumed: int = 0
    """Number of outcomes loaded from the journal."""
    ended: str = "complete"
    """``complete``, ``interrupted``, or ``stopped`` at the first failure."""
    reenact: str = __version__
    python: str = msgspec.field(default_factory=platform.python_version)
    system: str = msgspec.field(default_factory=_system)


def report_json(account: Header, tally: Tally) -> dict[str, Any]:
    """Return the report as JSON values, in version 1."""
    return {
        "version": _VERSION,
        "run": msgspec.to_builtins(account),
        "counts": {name: tally.counts[name] for name in ("ok", *BAD, "known")},
        "notRun": account.total - len(tally),
        "groups": [
            {
                "id": group.id,
                "status": group.status,
                "cause": group.cause,
                "known": group.known,
                "recordings": [one.recording for one in group.outcomes],
                "first": _whole(group.outcomes[0]),
            }
            for group in tally.groups()
        ],
        "seconds": round(sum(one.seconds for one in tally), 3),
    }


def _whole(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    return found


def check_report_paths(places: dict[str, str | None]) -> None:
    """Check that a file can be written at each path, and create the folders.

    ``places`` maps options to paths, such as ``{"--html": "out/report.html"}``. Raises
    :class:`UsageError` before the first replay, and not after the last one.
    """
    seen: dict[str, str] = {}
    for flag, path in places.items():
        if path is None:
            continue
        _check(flag, Path(path))
        other = seen.setdefault(os.path.realpath(path), flag)
        if other != flag:
            raise UsageError(
                f"{other} and {flag} are both to be written to {path}",
                hint="use a separate file for each",
            )


def _check(flag: str, path: Path) -> None:
    try:
        if path.is_dir():
            raise OSError(EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp")  # the temporary file of `replace_file`
        temporary.open("ab").close()
        temporary.unlink()
        if path.exists():
            path.open("ab").close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{flag} cannot be written to {path}: {why}",
            hint="choose a place that is yours to write; nothing has been run",
        ) from None


def write_reports(
    account: Header,
    tally: Tally,
    *,
    junit_to: str | None,
    json_to: str | None,
    html_to: str | None,
) -> list[OSError]:
    """Write the requested reports and return the errors of failed writes."""
    requested: list[tuple[str | None, Callable[[], str]]] = [
        (junit_to, lambda: junit_xml(tally)),
        (json_to, lambda: json.dumps(report_json(account, tally), indent=2) + "\n"),
        (html_to, lambda: _page(account, tally)),
    ]
    failed: list[OSError] = []
    for path, content in requested:
        if path is None:
            continue
        try:
            replace_file(
                Path(path),
                content().encode("utf-8", "backslashreplace"),
                sync=False,
                private=False,
            )
        except OSError as error:
            failed.append(error)
    return failed


def _page(account: Header, tally: Tally) -> str:

    return html_page(account, tally)


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ERRORS = ("unreadable", "timeout")


def junit_xml(outcomes: Iterable[Outcome]) -> str:
    """Return JUnit XML with one test case per recording.

    Known failures are reported as skipped, with their cause.
    """
    cases = sorted(outcomes, key=lambda outcome: outcome.recording)
    failed = sum(1 for one in cases if _tag(one) == "failure")
    errors = sum(1 for one in cases if _tag(one) == "error")
    skipped = sum(1 for one in cases if one.known)
    seconds = sum(one.seconds for one in cases)
    head = (
        f'<testsuite name="reenact regress" tests="{len(cases)}" failures="{failed}" '
        f'errors="{errors}" skipped="{skipped}" time="{seconds:.3f}">'
    )
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", head]
    for one in cases:
        lines += _case(one)
    return "\n".join([*lines, "</testsuite>", "</testsuites>", ""])


def _case(one: Outcome) -> list[str]:
    name = quoteattr(_clean(one.recording))
    start = f'<testcase classname="reenact.regress" name={name} time="{one.seconds:.3f}"'
    tag = _tag(one)
    if tag is None:
        return [f"{start}/>"]
    kind, message = quoteattr(one.status), quoteattr(_clean(one.cause))
    detail = escape(_clean(one.detail or one.cause))
    inside = f"<{tag} type={kind} message={message}>{detail}</{tag}>"
    if tag == "skipped":
        inside = f"<skipped message={message}/>"
    return [f"{start}>", inside, "</testcase>"]


def _tag(one: Outcome) -> str | None:
    if one.known:
        return "skipped"
    if one.status == "ok":
        return None
    return "error" if one.status in _ERRORS else "failure"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


_ROOM = 16 * 1024 * 1024
"""Maximum bytes of structured divergences. Further outcomes have only their text."""
_COMPARED = 20_000
"""Maximum characters of two texts that are compared word by word."""


def html_page(account: Header, tally: Tally) -> str:
    """Return the HTML document."""
    return regress_page("reenact regress", page_contents(account, tally))


def page_contents(account: Header, tally: Tally) -> dict[str, Any]:
    """Return the data of the page."""
    writer = _Writer()
    return {
        "run": {**msgspec.to_builtins(account), "command": _command(account.job)},
        "counts": {name: tally.counts[name] for name in ("ok", *BAD, "known")},
        "notRun": account.total - len(tally),
        "work": round(sum(one.seconds for one in tally), 3),
        "groups": [writer.group(group) for group in tally.groups()],
        "ok": [_row(one) for one in tally if one.status == "ok"],
    }


class _Writer:
    def __init__(self) -> None:
        self._room = _ROOM

    def group(self, group: Group) -> dict[str, Any]:
        return {
            "id": group.id,
            "status": group.status,
            "cause": group.cause,
            "known": group.known,
            "rows": [_row(one) for one in group.outcomes],
            "full": [self._full(one) for one in group.outcomes if one.detail],
        }

    def _full(self, outcome: Outcome) -> dict[str, Any]:
        data: dict[str, Any] = {"recording": outcome.recording, "detail": outcome.detail}
        divergence = _divergence(outcome)
        if divergence is None or self._room < 0:
            return data
        data["divergence"] = {
            **divergence.to_json(),
            "paths": [_gap(gap) for gap in divergence.paths],
        }
        self._room -= len(json.dumps(data))
        return data


def _row(outcome: Outcome) -> list[Any]:
    """Return the name, the seconds, the number of served calls and the gist, if there is one."""
    row = [outcome.recording, outcome.seconds, outcome.served]
    return [*row, outcome.gist] if outcome.gist else row


def _divergence(outcome: Outcome) -> Divergence | None:
    try:
        return None if outcome.divergence is None else Divergence.from_json(outcome.divergence)
    except UsageError:  # from a journal of a newer version
        return None


def _gap(gap: Gap) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(gap)
    one, other = gap.expected, gap.observed
    if isinstance(one, str) and isinstance(other, str) and len(one) + len(other) <= _COMPARED:
        data["words"] = word_diff(one, other)
    return data


def _command(job: Job) -> str:
    """Return the command that repeats the job for one recording, named ``RUN``."""
    words = ["reenact", "regress", "RUN"]
    words += [] if job.policy is None else ["--policy", job.policy]
    for flag, values in (("--allow", job.allow), ("--boundary", job.boundaries)):
        words += [word for one in values for word in (flag, one)]
    if job.target is not None:
        words += ["--target", job.target]
    elif job.command:
        words += ["--", *job.command]
    return shlex.join(words)
