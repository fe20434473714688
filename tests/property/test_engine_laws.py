"""Laws of the engine's pure half, over programs of many lanes and all their interleavings."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from reenact.engine.call import Serve
from reenact.policy.model import BoundaryRule, Policy
from reenact.testing import Playbook
from reenact.testing.recordings import call_of, parse_line
from tests.property.programs import (
    PROGRAMS,
    Program,
    Recorded,
    Recording,
    Replay,
    Step,
    is_inside_a_tool,
    lanes_of,
)

AGAIN = Policy(id="p", boundaries=(BoundaryRule(action="re-execute"),))
STUB = Policy(id="p")
RANDOMS = st.integers(0, 2**32).map(Random)
INTERLEAVINGS = 20


def _recorded(program: Program, random: Random) -> Recorded:
    return Recording(program, random).made


def _expected_places(program: Program, made: Recorded, policy: Policy) -> list[tuple[str, int]]:
    """The calls that a replay makes: those inside stubbed tools are not made."""
    stubs = policy is STUB
    return [place for place in made.seqs if not (stubs and is_inside_a_tool(place[0], program))]


def _answers(made: Recorded) -> dict[tuple[str, int], int]:
    return {place: made.closings.get(place, seq) for place, seq in made.seqs.items()}


@given(PROGRAMS, RANDOMS, st.sampled_from([STUB, AGAIN]))
def test_every_interleaving_gives_every_call_its_own_answer_in_the_recorded_order(
    program: Program, random: Random, policy: Policy
) -> None:
    made = _recorded(program, random)
    source, answers = made.source(), _answers(made)
    places = _expected_places(program, made, policy)
    for _ in range(INTERLEAVINGS):
        book = Playbook(source, policy=policy)
        run = Replay(program, random, book)
        assert run.got == {place: answers[place] for place in places}
        assert run.order == [place for place in made.order if place in run.got]
        assert sorted(run.served) == sorted(made.seqs[place] for place in places)
        assert book.decide("unused") == book.decide("head") == "nothing"
        assert book.machine.divergences == []


def _mutated(program: Program, lane: str, index: int) -> Program | None:
    """The same program with another request in one place."""
    steps = list(program)
    head, _, rest = lane.partition(".")
    if not rest:
        changed = re.sub(r": \d|now|random|run \{\}", _other, steps[index].said)
        steps[index] = Step(changed, steps[index].inside)
        return tuple(steps)
    number, _, deeper = rest.partition(".")
    children = [at for at, step in enumerate(steps) if step.inside is not None]
    at = children[int(number) - 1]
    inside = _mutated(steps[at].inside or (), f"{head}.{deeper}".rstrip("."), index)
    steps[at] = Step(steps[at].said, inside)
    return tuple(steps)


def _other(found: re.Match[str]) -> str:
    return {"now": "then", "random": "other", "run {}": 'run {"new": 1}'}.get(found[0], ": 9")


PATHS = {
    "network": "$.request.x",
    "llm": "$.q",
    "clock": "$.key",
    "rng": "$.key",
    "tool search": "$.args.q",
    "tool run": "$.args.new",
}


@given(PROGRAMS, RANDOMS, st.sampled_from([STUB, AGAIN]), st.data())
def test_one_other_request_is_found_where_it_is_and_moves_nothing(
    program: Program, random: Random, policy: Policy, data: st.DataObject
) -> None:
    made = _recorded(program, random)
    places = _expected_places(program, made, policy)
    assume(places)
    lane, index = data.draw(st.sampled_from(places))
    step, _ = lanes_of(program)[lane][index]
    changed = _mutated(program, lane, index)
    assert changed is not None
    for _ in range(INTERLEAVINGS // 4):
        book = Playbook(made.source(), policy=policy)
        run = Replay(changed, random, book)
        assert run.refused == [(lane, index)]
        (divergence,) = book.machine.divergences
        assert divergence.code == "event_payload_mismatch"
        assert (divergence.lane, divergence.event_seq) == (lane, made.seqs[lane, index])
        kind = step.kind if step.kind != "tool" else " ".join(step.said.split()[:2])
        assert divergence.json_path == PATHS[kind]
        decision, _ = book.machine.decide(call_of(parse_line(f"{lane} {step.said}")), lane)
        assert isinstance(decision, Serve) or step.kind == "tool"
        assert decision.entry is not None  # type: ignore[union-attr]
        assert decision.entry.seq == made.seqs[lane, index]  # type: ignore[union-attr]


@given(PROGRAMS, RANDOMS, st.sampled_from(["lane", "transcript", "lookup"]))
def test_a_lenient_run_serves_every_call_that_exists_exactly_once(
    program: Program, random: Random, match: str
) -> None:
    made = _recorded(program, random)
    asked = [
        (lane, step.said)
        for lane, steps in lanes_of(program).items()
        for step, _ in steps
        if step.kind != "spawn"
    ]
    random.shuffle(asked)
    policy = Policy(id="p", match=match)  # type: ignore[arg-type]
    book = Playbook(made.source(), policy=policy, strict=False)
    served = []
    for lane, said in asked:
        call = call_of(parse_line(f"{lane} {said}"))
        decision, key = book.machine.decide(call, lane)
        assert isinstance(decision, Serve)
        assert decision.entry.key == key
        assert match != "lane" or decision.entry.lane == lane
        served.append(decision.entry.seq)
    assert sorted(served) == sorted(made.seqs.values())
    assert book.decide("unused") == "nothing"


@given(PROGRAMS, RANDOMS)
def test_look_up_serves_equal_calls_in_the_order_of_the_log(
    program: Program, random: Random
) -> None:
    made = _recorded(program, random)
    asked = [
        f"{lane} {step.said}" for lane, steps in lanes_of(program).items() for step, _ in steps
    ]
    asked = [line for line in asked if line.split(" ", 1)[1]]
    random.shuffle(asked)
    book = Playbook(made.source(), policy=Policy(id="p", match="lookup"))
    of_key: dict[str, list[int]] = {}
    for line in asked:
        decision, key = book.machine.decide(call_of(parse_line(line)), "0")
        assert isinstance(decision, Serve)
        of_key.setdefault(key, []).append(decision.entry.seq)
    assert all(seqs == sorted(seqs) for seqs in of_key.values())
    assert Counter(seq for seqs in of_key.values() for seq in seqs) == Counter(made.seqs.values())


@given(PROGRAMS, RANDOMS, st.data())
def test_what_a_lenient_run_leaves_out_is_left_over_and_nothing_else(
    program: Program, random: Random, data: st.DataObject
) -> None:
    made = _recorded(program, random)
    places = list(made.seqs)
    assume(places)
    missing = data.draw(st.sets(st.sampled_from(places)))
    book = Playbook(made.source(), strict=False)
    lanes = lanes_of(program)
    for lane, steps in lanes.items():
        for index, (step, _) in enumerate(steps):
            if step.kind == "spawn" or (lane, index) in missing:
                continue
            call = call_of(parse_line(f"{lane} {step.said}"))
            decision, _ = book.machine.decide(call, lane)
            assert isinstance(decision, Serve)
    left, count = book.machine.left_over(1_000)
    assert count == len(left) == len(missing)
    assert Counter(one.lane for one in left) == Counter(lane for lane, _ in missing)
