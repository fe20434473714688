"""Causes visible in the order of calls: reordered, moved, added or missing calls."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from reenact.engine.divergence.model import Nearest, Seen
from reenact.views.explain.case import Case, Cause, Remedy, update_remedy

__all__ = ["find_order_causes", "is_another_call"]


def find_order_causes(case: Case) -> Iterator[Cause]:
    """Find causes in the order of calls by searching the recording for the observed call."""
    same = next((one for one in case.divergence.nearest if one.score == 1), None)
    code = case.divergence.code
    if code == "nondeterministic_underflow":
        yield _more_draws(case)
    elif same is not None:
        yield _elsewhere(case, same)
    elif code == "event_missing":
        yield from _missing(case)
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
    seq = case.divergence.event_seq
    fact = f"Event {same.seq}, in lane {same.lane}, is exactly this call"
    if same.used:
        return _repeated(case, same, fact)
    if same.lane != case.divergence.lane:
        return Cause(
            name="other_lane",
            sure="certain",
            text=f"The call is made from another task, thread or tool: lane {case.divergence.lane}, and it "
            f"was lane {same.lane}.",
            evidence=[f"{fact}, and has not been used."],
            ways=[
                update_remedy(case, "If the program is to be like that, make again what differs."),
                _look_up(),
            ],
        )
    later = seq is not None and same.seq > seq
    between = f"what was recorded before it, from event {seq} on, has not been asked for"
    return Cause(
        name="other_order",
        sure="likely",
        text="The calls come in another order, or one is left out: "
        + (f"{between}." if later else "this one was passed over before."),
        evidence=[f"{fact}{', which comes later' if later else ''}."],
        ways=[
            Remedy(
                text="If the order is a matter of chance, settle it in the program: sort, or wait for one "
                "before the other."
            ),
            update_remedy(case, "If the new order is intended, make again what differs."),
            _look_up(),
        ],
    )


def _look_up() -> Remedy:
    return Remedy(
        text="If the order never matters, find calls by what they ask, wherever they stand.",
        policy={"match": "lookup"},
    )


def _repeated(case: Case, same: Nearest, fact: str) -> Cause:
    before = [near for near in case.near if near.became == "same"]
    last = before[-1] if before else None
    if last is not None and last.seq == same.seq and last.failed:
        return Cause(
            name="retry",
            sure="likely",
            text=f"The call is tried once more: the recorded one failed ({last.failed}), and was not tried "
            "again there.",
            evidence=[f"{fact}, and it has been served."],
            ways=[
                Remedy(text="Give the program as many attempts as it had when it was recorded."),
                update_remedy(case, "If it is to try again, record that."),
            ],
        )
    return Cause(
        name="repeated",
        sure="certain",
        text="The program makes this call more often than it did: a loop, a retry, or a cache that is gone.",
        evidence=[f"{fact}, and it has been served already."],
        ways=[_adding(case), update_remedy(case)],
    )


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
        text="Another call stands here: one is new, or the one that was recorded here is left out.",
        evidence=[
            f"The recording has {_named(case.divergence.expected)} here, the program asks for "
            f"{_named(case.divergence.observed)}.",
            "The call itself is recorded nowhere.",
        ],
        ways=[update_remedy(case), _adding(case)],
    )


def _named(seen: Seen | None) -> str:
    if seen is None:
        return "nothing"
    what = "" if seen.type == "nondeterministic" else f"{seen.type} "
    return f"{what}{seen.operation}".rstrip()


def _missing(case: Case) -> Iterator[Cause]:
    flags = case.divergence.flags
    if "stalled" in flags:
        yield Cause(
            name="stalled",
            sure="certain",
            text="The program waits for something that does not come: the recording has another order of "
            "events, or something else was to happen first.",
            evidence=["Its stack is where it waits."] if case.divergence.stack else [],
            ways=[update_remedy(case)],
        )
    elif "cancelled" in flags:
        yield Cause(
            name="cancelled",
            sure="certain",
            text="The program cancelled a call that had an answer: a time-out, or a cancel(), comes earlier.",
            ways=[update_remedy(case)],
        )
    else:
        yield _gone(case)


def _gone(case: Case) -> Cause:
    reached = [near for near in case.near if near.became == "same"]
    return Cause(
        name="gone",
        sure="certain",
        text=f"The program ended early, or leaves calls out: this one, with {_many(case.left)} after it."
        if case.left
        else "The program does not make this call any more.",
        evidence=[f"The last call before it was event {reached[-1].seq}."] if reached else [],
        ways=[
            update_remedy(case, "If it is to be gone, drop it from the recording."),
            Remedy(
                text="If it may be made or not, let it stay unused.", policy={"unused": "allow"}
            ),
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
