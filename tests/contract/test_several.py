"""Several requests at once: each gets its own answer, in the order in which they came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.clients.cases import every
from tests.contract.clients.face import Answer, Client
from tests.contract.clients.tasks import Tasks
from tests.contract.stage import Stage


def _number(answer: Answer) -> str:
    return json.loads(answer.body)["n"]


@every()
def test_fifty_identical_requests_get_their_own_answers(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return [_number(answer) for answer in client.parallel([f"{stage.url}/json"] * 50)]

    numbers = stage.check_unsorted(program, str)
    assert sorted(numbers) == [f"{number:06d}" for number in range(1, 51)]


@every()
def test_answers_come_in_the_order_in_which_they_came(stage: Stage, client: Client) -> None:
    def program() -> Any:
        answers = client.completed([f"{stage.url}/mixed?of=8&lane={n}" for n in range(8)])
        return [(_number(answer), json.loads(answer.body)["target"]) for answer in answers]

    came = stage.check_unsorted(program, lambda one: one[0])
    assert sorted(target for _, target in came) == [f"/mixed?of=8&lane={n}" for n in range(8)]


@every()
def test_the_first_of_two_wins_again(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/race/lost", f"{stage.url}/race/won"]

    def program() -> Any:
        return client.race(urls, stage.server.gate.open)

    for _ in range(2):
        stage.record(program, overwrite=True)
        assert stage.replay(program) == [False, True]
    assert stage.plain(program) == [False, True]


@every("cancel")
def test_a_call_under_a_time_limit_of_the_program(stage: Stage, client: Tasks) -> None:
    def program() -> Any:
        return client.give_up(f"{stage.url}/slow", 0.2), client.fetch("GET", f"{stage.url}/json")

    why, after = stage.check(program)
    assert why == "CancelledError"
    assert _number(after) == "000002"
    given_up = stage.calls()[0].data
    assert given_up.get("cancelled") is True or given_up["ended"] == "cancelled"


@every("cancel")
def test_a_stream_under_a_time_limit_of_the_program(stage: Stage, client: Tasks) -> None:
    def program() -> Any:
        never = client.give_up_reading(f"{stage.url}/slow", 0.4)  # time enough to have asked
        return never, client.give_up_reading(f"{stage.url}/slow/body", 0.4)

    assert stage.check(program) == ([b"time out"], [b"one 000002", b"time out"])
    assert [call.data["ended"] for call in stage.calls()] == ["cancelled", "cancelled"]


@every("cancel")
def test_a_call_that_is_cancelled_when_another_one_is_answered(stage: Stage, client: Tasks) -> None:
    def program() -> Any:
        return client.cancel(f"{stage.url}/slow", f"{stage.url}/json?quick")

    recorded = stage.record(program)
    assert recorded[0] is True
    assert stage.replay(program) == recorded


@every()
@pytest.mark.parametrize("rounds", [3])
def test_a_pool_that_is_used_again_and_again(stage: Stage, client: Client, rounds: int) -> None:
    def program() -> Any:
        urls = [f"{stage.url}/json?round"] * 6
        return [[_number(one) for one in client.parallel(urls)] for _ in range(rounds)]

    recorded = stage.record(program)
    numbers = [number for round_ in recorded for number in round_]
    assert sorted(numbers) == [f"{n:06d}" for n in range(1, 6 * rounds + 1)]
    assert stage.replay(program) == recorded
