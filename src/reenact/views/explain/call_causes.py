"""Causes outside the values: the order of calls, files, arguments, the environment, the recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from urllib.parse import urlsplit

import msgspec

from reenact.diff.terminal_text import escape_controls
from reenact.engine.divergence.causes import (
    Cause,
    Remedy,
    changed_file,
    left_out_call,
    recorded_elsewhere,
)
from reenact.engine.divergence.model import Nearest, Seen
from reenact.views.explain.case import Case, update_remedy

__all__ = ["find_environment_causes", "find_file_causes", "find_order_causes", "is_another_call"]


def find_order_causes(case: Case) -> Iterator[Cause]:
    """Find causes in the order of calls by searching the recording for the observed call."""
    same = next((one for one in case.divergence.nearest if one.score == 1), None)
    code = case.divergence.code
    if code == "nondeterministic_underflow":
        yield _more_draws(case)
    elif same is not None:
        yield _elsewhere(case, same)
    elif code == "event_missing":
        yield _missing(case)
    elif code == "event_unexpected":
        yield _new(case)
    elif code == "event_type_mismatch" or is_another_call(case):
        yield _another(case)


def is_another_call(case: Case) -> bool:
    """Return whether the program requested a different operation or resource."""
    one, other = case.divergence.expected, case.divergence.observed
    if one is None or other is None or one.type == "llm_request" == other.type:
        return False
    return one.type != other.type or _resource(one) != _resource(other)


def _resource(seen: Seen) -> tuple[str, str]:
    request = seen.request.get("request") if isinstance(seen.request, dict) else None
    url = request.get("url") if isinstance(request, dict) else None
    try:
        return seen.operation, urlsplit(url).path if isinstance(url, str) else ""
    except ValueError:
        return seen.operation, ""


def _elsewhere(case: Case, same: Nearest) -> Cause:
    cause = recorded_elsewhere(
        same.seq,
        same.lane,
        same.used,
        here=case.divergence.lane,
        expected=case.divergence.event_seq,
    )
    if same.used:
        return _repeated(case, same, cause)
    if cause.name == "other_lane":
        text = "If the program is to be like that, make again what differs."
        return _with(cause, update_remedy(case, text), _look_up())
    return _with(
        cause,
        Remedy(
            text="If the order is a matter of chance, settle it in the program: sort, or wait for one "
            "before the other."
        ),
        update_remedy(case, "If the new order is intended, make again what differs."),
        _look_up(),
    )


def _with(cause: Cause, *ways: Remedy) -> Cause:
    return msgspec.structs.replace(cause, ways=[*ways])


def _look_up() -> Remedy:
    return Remedy(
        text="If the order never matters, find calls by what they ask, wherever they stand.",
        policy={"match": "lookup"},
    )


def _repeated(case: Case, same: Nearest, cause: Cause) -> Cause:
    before = [near for near in case.near if near.became == "same"]
    last = before[-1] if before else None
    if last is not None and last.seq == same.seq and last.failed:
        return Cause(
            name="retry",
            sure="likely",
            text=f"The call is tried once more: the recorded one failed ({last.failed}), and was not tried "
            "again there.",
            evidence=cause.evidence,
            ways=[
                Remedy(text="Give the program as many attempts as it had when it was recorded."),
                update_remedy(case, "If it is to try again, record that."),
            ],
        )
    return _with(cause, _adding(case), update_remedy(case))


def _adding(case: Case) -> Remedy:
    return Remedy(text="If the new call is intended, add it.", command=case.again.add)


def _new(case: Case) -> Cause:
    nearest = case.divergence.nearest
    evidence = (
        [f"Most like it is event {nearest[0].seq}, {int(nearest[0].score * 100)}% alike."]
        if nearest
        else ["The recording has nothing like it."]
    )
    if case.near and not case.left:
        evidence.append(f"All recorded calls of lane {case.divergence.lane} have been used.")
    return Cause(
        name="new_call",
        sure="likely" if nearest else "certain",
        text="The program makes a call that it did not make when it was recorded.",
        evidence=evidence,
        ways=[_adding(case), update_remedy(case)],
    )


def _another(case: Case) -> Cause:
    return Cause(
        name="another_call",
        sure="likely",
        text="A different call is made here: it is new, or the program left out the recorded call.",
        evidence=[
            f"The recording has {_named(case.divergence.expected)} here, but the program makes "
            f"{_named(case.divergence.observed)}.",
            "The new call is not in the recording.",
        ],
        ways=[update_remedy(case), _adding(case)],
    )


def _named(seen: Seen | None) -> str:
    if seen is None:
        return "nothing"
    what = "" if seen.type == "nondeterministic" else f"{seen.type} "
    return f"{what}{seen.operation}".rstrip()


def _missing(case: Case) -> Cause:
    cause = left_out_call(case.divergence.flags, stack=bool(case.divergence.stack))
    if cause.name != "gone":
        return _with(cause, update_remedy(case))
    reached = [near for near in case.near if near.became == "same"]
    many = (
        f"The program ended early, or leaves calls out: this one, with {_many(case.left)} after it."
    )
    return msgspec.structs.replace(
        cause,
        text=many if case.left else cause.text,
        evidence=[f"The last call before it was event {reached[-1].seq}."] if reached else [],
        ways=[
            update_remedy(case, "If it is to be gone, drop it from the recording."),
            *cause.ways,
        ],
    )


def _many(number: int) -> str:
    return "one" if number == 1 else f"{number:,}"


def _more_draws(case: Case) -> Cause:
    seen = case.divergence.observed
    what = seen.operation if seen is not None else ""
    source = what.partition(" ")[0]
    words = {"clock": "reads the clock", "rng": "draws from chance", "process": "starts a process"}
    return Cause(
        name="more_draws",
        sure="certain",
        text=f"The program {words.get(source, 'asks')} more often than it did.",
        evidence=[f"All that the lane has recorded of {what} is used up."] if what else [],
        ways=[
            update_remedy(case),
            *(
                [
                    Remedy(
                        text="If its value does not matter, take the real one.",
                        policy={source: "pass"},
                    )
                ]
                if source in ("clock", "rng")
                else []
            ),
        ],
    )


def find_file_causes(case: Case) -> Iterator[Cause]:
    """Yield causes of a difference in a file, if the call reads one."""
    one, other = case.recorded, case.asked
    if case.divergence.code != "event_payload_mismatch":
        return
    if not isinstance(one, dict) or not isinstance(other, dict):
        return
    seen = case.divergence.observed
    if one.get("source") == "fs" and one.get("op") == other.get("op"):
        cause = changed_file(str(one.get("op")), kept=False)
        put_back, keep = cause.ways
        intended = update_remedy(case, "If the change is intended, make again what differs.")
        again = msgspec.structs.replace(keep, command=case.again.rewrite)
        yield _with(cause, put_back, intended, again)
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
            text="The difference is not shown, because it contains text that looks like a secret.",
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
        evidence.append(f"{_said(found[0])} occurs in the request.")
    yield Cause(
        name="arguments",
        sure="certain" if found else "possible",
        text="The arguments of the program differ from the recording.",
        evidence=evidence,
        ways=[Remedy(text="Replay it with the recorded arguments.", command=case.again.recorded)]
        if case.again.recorded
        else [Remedy(text="Replay it with the recorded arguments.")],
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
                Remedy(text="Or record the complete run again.", command=case.again.rewrite),
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
