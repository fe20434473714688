"""What a recording says about the place of a program, and what a replay changes."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.runs.environment import Environment, Zone, current_environment, recorded_environment


class _Start:
    """As much of an event as is looked at."""

    def __init__(self, data: dict[str, Any], type: str = "run_start") -> None:
        self.type = type
        self.data = data


def _recorded(data: dict[str, Any]) -> Environment:
    return recorded_environment([_Start(data)])  # type: ignore[list-item]


def test_what_is_found_comes_back_from_the_recording() -> None:
    environ = {"TZ": "UTC0", "LANG": "C", "PYTHONHASHSEED": "5", "HOME": "/h", "LC_TIME": "de_DE"}
    found = current_environment(environ)
    assert found.text == {"LANG": "C", "LC_TIME": "de_DE"}
    assert (found.zone, found.hash_seed) == (Zone("UTC0"), "5")
    assert _recorded({"argv": ["p"], **found.data()}) == found


def test_a_seed_is_made_where_there_is_none() -> None:
    one, other = (current_environment({}).hash_seed for _ in range(2))
    assert one is not None
    assert one.isdecimal()
    assert one != other


def test_a_replay_sets_what_was_set_and_takes_away_what_was_not() -> None:
    then = Environment(hash_seed="5", text={"LANG": "C", "COLUMNS": "70"}, zone=Zone("JST-9"))
    changes = then.changes({"LC_ALL": "de_DE", "TZ": "UTC0"})
    assert (changes["LANG"], changes["LC_ALL"], changes["TZ"]) == ("C", None, "JST-9")
    assert (changes["PYTHONHASHSEED"], changes["COLUMNS"], changes["LINES"]) == ("5", "70", None)


def test_another_terminal_is_spoken_of_as_the_recorded_one() -> None:
    changes = Environment(text={}, terminal=(131, 51)).changes({})
    assert (changes["COLUMNS"], changes["LINES"]) == ("131", "51")


@pytest.mark.parametrize(
    "data",
    [{}, {"argv": ["p"]}, {"text": 5, "zone": []}, {"hashSeed": "-1"}, {"hashSeed": 7}],
    ids=["nothing", "as before", "nonsense", "no seed", "a number"],
)
def test_a_recording_that_says_nothing_changes_nothing(data: dict[str, Any]) -> None:
    assert _recorded(data).changes({"LANG": "C"}) == {}


def test_a_net_tape_has_the_seed_alone() -> None:
    assert current_environment({"PYTHONHASHSEED": "5"}).seed_only().data().keys() <= {
        "hashSeed",
        "seed",
        "volatile",
    }


def test_seeds_do_not_count_when_recordings_are_compared() -> None:
    assert current_environment({}).data()["volatile"] == ["$.hashSeed", "$.seed"]
    assert "volatile" not in Environment(text={}).data()
