"""Why a replay diverged: the first cause that is named is the true one, and its rule settles it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import reenact
from reenact import DivergenceError, Policy
from reenact.engine.divergence.causes import SURE
from reenact.engine.divergence.model import Divergence
from reenact.store.reader import open_recording
from reenact.views.explain.explanation import Explanation, causes_of, explain, read_divergences
from tests.unit.views.programs_changed import CASES, Changed, Program, World


def _recorded(program: Program, place: Path) -> Path:
    with httpx.Client(transport=World()) as client, reenact.session(capture=place, mode="record"):
        program(client)
    return place


def _replayed(program: Program, place: Path, policy: Policy | None = None) -> Divergence | None:
    with httpx.Client(transport=World()) as client:
        try:
            with reenact.session(capture=place, mode="replay", strict=True, policy=policy):
                program(client)
        except DivergenceError as error:
            found = error.divergence
            return found if isinstance(found, Divergence) else None
    return None


def _explained(case: Changed, place: Path) -> Explanation:
    divergence = _replayed(case.now, _recorded(case.then, place))
    assert divergence is not None
    (told,) = read_divergences(divergence.to_json())
    with open_recording(place) as source:
        return explain(told, place, source)


def _policy(said: dict[str, Any]) -> Policy:
    return msgspec.convert({"id": "tried", **said}, Policy)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_true_cause_comes_first_and_is_settled(case: Changed, tmp_path: Path) -> None:
    place = tmp_path / "c"
    found = _explained(case, place)
    names = [cause.name for cause in found.causes]
    assert names[:1] == ([case.first] if case.first else [])
    assert {*names[1:]} <= case.also
    sure = [SURE.index(cause.sure) for cause in found.causes]
    assert sure == sorted(sure)
    assert (found.settle is not None) == case.settles
    for policy in _offered(case, found):
        assert _replayed(case.now, place, policy) is None
    with httpx.Client(transport=World()) as client, reenact.session(capture=place, mode="update"):
        case.now(client)
    assert _replayed(case.now, place) is None


def _offered(case: Changed, found: Explanation) -> list[Policy]:
    """The policies that are to settle it, each by itself."""
    said = [] if found.settle is None else [found.settle.policy]
    if case.by_rule:
        said.append(next(way.policy for way in found.causes[0].ways if way.policy is not None))
    distinct = [one for at, one in enumerate(said) if one is not None and one not in said[:at]]
    return [_policy(one) for one in distinct]


@pytest.mark.parametrize(
    "name", ["one more", "tried again", "a new call at the end", "a new call before"]
)
def test_adding_what_is_missing_settles_it(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    place = _recorded(case.then, tmp_path / "c")
    mode = "record_missing"
    with httpx.Client(transport=World()) as client, reenact.session(capture=place, mode=mode):
        case.now(client)
    assert _replayed(case.now, place) is None


def _first_cause(place: Path, divergence: Divergence, **report: Any) -> Explanation:
    report = {"divergences": [divergence.to_json()], "recording": str(place), **report}
    (told,) = read_divergences(report)
    with open_recording(place) as source:
        return explain(told, place, source)


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    file, place = tmp_path / "data" / "a", tmp_path / "c"
    file.parent.mkdir()

    def read(text: str, mode: str) -> None:
        file.write_text(text)
        with reenact.session(capture=place, mode=mode, strict=True, root=tmp_path, files=["data"]):
            file.read_text()

    read("as it was", "record")
    with pytest.raises(DivergenceError) as caught:
        read("as it is", "replay")
    assert isinstance(caught.value.divergence, Divergence)
    found = _first_cause(place, caught.value.divergence)
    assert [cause.name for cause in found.causes] == ["file"]
    assert "read data/a" in found.causes[0].text


def _prompted(tmp_path: Path) -> tuple[Path, Divergence]:
    case = next(case for case in CASES if case.name == "prompt")
    place = _recorded(case.then, tmp_path / "c")
    divergence = _replayed(case.now, place)
    assert divergence is not None
    return place, divergence


def test_an_argument_that_is_asked_for_is_the_cause(tmp_path: Path) -> None:
    place, divergence = _prompted(tmp_path)
    arguments = {"recorded": ["Is it warm in Bern?"], "given": ["Is it cold in Bern?"]}
    found = _first_cause(place, divergence, arguments=arguments)
    assert [(cause.name, cause.sure) for cause in found.causes] == [
        ("arguments", "certain"),
        ("prompt", "likely"),
    ]
    arguments = {"recorded": ["--fast"], "given": ["--slow"]}
    found = _first_cause(place, divergence, arguments=arguments)
    assert [(cause.name, cause.sure) for cause in found.causes] == [
        ("prompt", "likely"),
        ("arguments", "possible"),
    ]


def test_other_surroundings_are_only_possible(tmp_path: Path) -> None:
    place, divergence = _prompted(tmp_path)
    with open_recording(place) as source:
        then = source.manifest().environment
    found = _first_cause(place, divergence, environment={**then, "python": "3.9.1"})
    assert [cause.name for cause in found.causes] == ["prompt", "environment"]
    assert found.causes[1].sure == "possible"
    assert "3.9.1" in found.causes[1].evidence[0]
    found = _first_cause(place, divergence, environment=then)
    assert [cause.name for cause in found.causes] == ["prompt"]


def test_where_only_the_net_is_re_enacted_the_clock_is_the_real_one(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "a time in the prompt")
    place = _recorded(case.then, tmp_path / "c")
    divergence = _replayed(case.now, place)
    assert divergence is not None
    whole, net = (
        _first_cause(place, divergence, **said).causes[0] for said in ({}, {"only": "network"})
    )
    assert "code without a boundary" in whole.evidence[0]
    assert "@reenact.boundary" in whole.ways[-1].text
    assert "so its replay uses live values" in net.evidence[0]
    assert "--capture" in net.ways[-1].text


def test_words_and_roles_are_told(tmp_path: Path) -> None:
    found = _first_cause(*_prompted(tmp_path))
    (cause,) = found.causes
    assert cause.text == "The prompt has changed: message 2 (user)."
    assert cause.evidence == ["message 2 (user): Is it [-warm-]{+cold+} in Bern?"]


def test_without_the_recording_there_are_causes_still(tmp_path: Path) -> None:
    _, divergence = _prompted(tmp_path)
    (told,) = read_divergences(divergence.to_json())
    found = explain(told, None, None)
    assert [cause.name for cause in found.causes] == ["prompt"]
    assert found.case.near == []


SEEN: dict[str, Any] = {"type": "tool_call", "operation": "search", "lane": "0"}
ENVELOPE: dict[str, Any] = {"version": 1, "captureId": "c", "runId": "r", "seq": 7, "ts": 1}
EVENT: dict[str, Any] = {**ENVELOPE, **SEEN, "data": {}}


@pytest.mark.parametrize(
    "said,expected",
    [
        ({"code": "event_missing", "flags": ["stalled"], "stack": "here"}, "stalled"),
        ({"code": "event_missing", "flags": ["cancelled"]}, "cancelled"),
        ({"code": "event_missing"}, "gone"),
        ({"code": "event_unexpected", "observed": SEEN}, "new_call"),
        ({"code": "event_type_mismatch", "expected": EVENT, "observed": SEEN}, "another_call"),
        ({"code": "event_payload_mismatch", "expected": EVENT, "observed": SEEN}, ""),
        ({"code": "nondeterministic_underflow"}, "more_draws"),
        ({"code": "event_payload_mismatch", "flags": ["not shown: jwt"]}, "hidden"),
    ],
)
def test_a_report_with_little_in_it(said: dict[str, Any], expected: str) -> None:
    always = {"version": 1, "detail": "", "lane": "0", "hint": "", "morePaths": 0}
    (told,) = read_divergences({**always, "paths": [], "nearest": [], "flags": [], **said})
    found = explain(told, None, None)
    assert [cause.name for cause in found.causes] == ([expected] if expected else [])
    assert all(cause.ways for cause in found.causes)


def test_a_recording_that_was_cut_off_ends_early(tmp_path: Path) -> None:
    place = tmp_path / "c"
    divergence = _replayed(_get("/a", "/b"), _recorded(_get("/a"), place))
    assert divergence is not None
    (told,) = read_divergences(divergence.to_json())
    with open_recording(place) as source:
        case = explain(told, place, source).case
    cut = msgspec.structs.replace(case, status="recovered")
    assert [cause.name for cause in causes_of(cut)] == ["unfinished", "new_call"]
    assert [cause.name for cause in causes_of(case)] == ["new_call"]


def _get(*paths: str) -> Program:
    return lambda client: [client.get(f"https://shop.example{path}") for path in paths]


def test_what_is_around_it(tmp_path: Path) -> None:
    def program(*numbers: int) -> Program:
        return lambda client: [
            client.get(f"https://shop.example/{one}?of={one}") for one in numbers
        ]

    place = _recorded(program(1, 2, 3, 4, 5, 6, 7, 8), tmp_path / "c")
    divergence = _replayed(
        lambda client: [*program(1, 2, 3, 4)(client), *program(9)(client)], place
    )
    assert divergence is not None
    found = _first_cause(place, divergence)
    near = [(one.seq, one.became) for one in found.case.near]
    assert near == [(2, "same"), (3, "same"), (4, "same"), (5, "differs"), (6, "not"), (7, "not")]
    assert found.case.left == 3
