"""A regression as JUnit XML, which every CI system can show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from reenact.runs.regression.outcome import Outcome

__all__ = ["junit"]

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ERRORS = ("unreadable", "timeout")


def junit(outcomes: Iterable[Outcome]) -> str:
    """One test case per recording. What is known to go wrong is skipped, with its cause."""
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
