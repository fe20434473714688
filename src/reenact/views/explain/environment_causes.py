"""Causes outside the request: files, arguments, the interpreter, an incomplete recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest

from reenact.diff.terminal_text import escape_controls
from reenact.views.explain.case import Case, Cause, Remedy, update_remedy

__all__ = [
    "find_environment_causes",
    "find_file_causes",
]


def find_file_causes(case: Case) -> Iterator[Cause]:
    """Yield causes of a difference in a file, if the call reads one."""
    one, other = case.recorded, case.asked
    if case.divergence.code != "event_payload_mismatch":
        return
    if not isinstance(one, dict) or not isinstance(other, dict):
        return
    seen = case.divergence.observed
    if one.get("source") == "fs" and one.get("op") == other.get("op"):
        yield Cause(
            name="file",
            sure="certain",
            text=f"What the program reads has changed since it was recorded: {one.get('op')}.",
            ways=[
                Remedy(text="Put it back as it was."),
                update_remedy(case, "If it is to be like that, make again what differs."),
                Remedy(
                    text="If the recorded run has changed it itself, keep what is read, and record again.",
                    policy={"files": {"content": True}},
                    command=case.again.rewrite,
                ),
            ],
        )
    elif (
        seen is not None and seen.type == "state_mutation" and one.get("type") == other.get("type")
    ):
        yield Cause(
            name="written",
            sure="certain",
            text=f"The program changes something else than it did: {seen.operation}.",
            ways=[
                update_remedy(case),
                Remedy(
                    text="If it is not intended, look for what it was made of: the calls before were the "
                    "same."
                ),
            ],
        )


_NAMES = {"python": "Python", "platform": "the platform", "reenact": "Reenact"}
_SHORTEST = 3


def find_environment_causes(case: Case) -> Iterator[Cause]:
    """Yield each difference between the recorded and the current environment."""
    yield from _hidden(case)
    yield from _arguments(case)
    yield from _not_whole(case)
    yield from _environment(case)


def _hidden(case: Case) -> Iterator[Cause]:
    said = [flag for flag in case.divergence.flags if flag.startswith(("not shown:", "withheld:"))]
    if said:
        yield Cause(
            name="hidden",
            sure="certain",
            text="What differs is not shown: text in it looks like a secret, so it is kept from recordings "
            "and reports.",
            evidence=[escape_controls(flag) for flag in said],
            ways=[
                Remedy(
                    text="Keep the secret out of the request, or name the field that holds it in a sanitizer "
                    "(secretNames): then only its value is replaced."
                ),
                Remedy(
                    text="If the change is intended, make the call again.",
                    command=case.again.update,
                ),
            ],
        )


def _arguments(case: Case) -> Iterator[Cause]:
    then, now = case.recorded_arguments, case.given_arguments
    if then == now:
        return
    words = [word for word in now if word not in then and len(word) >= _SHORTEST]
    shown = json.dumps([place.gap.observed for place in case.places], ensure_ascii=False)
    found = [word for word in words if json.dumps(word, ensure_ascii=False)[1:-1] in shown]
    pairs = [(one, other) for one, other in zip_longest(then, now) if one != other]
    evidence = [
        f"{_said(other)} now, {_said(one)} when it was recorded." for one, other in pairs[:3]
    ]
    if found:
        evidence.append(f"{_said(found[0])} stands in what is asked for.")
    yield Cause(
        name="arguments",
        sure="certain" if found else "possible",
        text="The program was given other arguments than when it was recorded.",
        evidence=evidence,
        ways=[Remedy(text="Replay it with those of the recording.", command=case.again.recorded)]
        if case.again.recorded
        else [Remedy(text="Replay it with those of the recording.")],
    )


def _said(word: str | None) -> str:
    return "nothing" if word is None else escape_controls(json.dumps(word, ensure_ascii=False))


def _not_whole(case: Case) -> Iterator[Cause]:
    ends = case.divergence.code in ("event_unexpected", "nondeterministic_underflow")
    if case.status == "recovered" and ends:
        yield Cause(
            name="unfinished",
            sure="likely",
            text="The recording ends early: its program was killed, and the recording closed afterwards.",
            ways=[
                Remedy(text="Add what is missing.", command=case.again.add),
                Remedy(text="Or record the whole run again.", command=case.again.rewrite),
            ],
        )


def _environment(case: Case) -> Iterator[Cause]:
    unlike = [
        f"{words}: {escape_controls(case.now[name])} now, {escape_controls(case.then[name])} when it was recorded."
        for name, words in _NAMES.items()
        if name in case.now and name in case.then and case.now[name] != case.then[name]
    ]
    if unlike:
        yield Cause(
            name="environment",
            sure="possible",
            text="The program runs in other surroundings.",
            evidence=unlike,
            ways=[
                Remedy(text="Replay where it was recorded, and see whether it diverges there, too.")
            ],
        )
