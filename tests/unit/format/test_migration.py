from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import RecordingDamaged, RecordingTooNew
from reenact.format.manifest import MAJOR
from reenact.store.rewrite import STEPS, Step, major_of, migrate_events, migrate_manifest

Json = dict[str, Any]


def step(major: int) -> Step:
    def visited(one: Json) -> Json:
        return {**one, "visited": [*one.get("visited", []), major]}

    return Step(major, visited, visited)


TOY = (step(2), step(0), step(1))


def test_steps_are_taken_in_order_whatever_order_they_are_listed_in() -> None:
    assert migrate_manifest({}, 0, target=3, steps=TOY)["visited"] == [0, 1, 2]
    events = list(migrate_events([{"n": 1}, {"n": 2}], 1, target=3, steps=TOY))
    assert events == [{"n": 1, "visited": [1, 2]}, {"n": 2, "visited": [1, 2]}]


def test_nothing_to_do_changes_nothing() -> None:
    assert migrate_manifest({"a": 1}, 3, target=3, steps=TOY) == {"a": 1}
    assert list(migrate_events([{"a": 1}], 3, target=3, steps=TOY)) == [{"a": 1}]


def test_a_missing_step_is_named() -> None:
    with pytest.raises(RecordingDamaged, match="no migration exists from format 1 to 2"):
        migrate_manifest({}, 0, target=3, steps=(step(0), step(2)))


def test_there_is_no_way_back() -> None:
    with pytest.raises(RecordingTooNew, match="format 4 is later than 3"):
        migrate_manifest({}, 4, target=3, steps=TOY)


def test_every_earlier_major_has_its_step() -> None:
    assert sorted(one.major for one in STEPS) == list(range(MAJOR))


@pytest.mark.parametrize(
    "manifest, major",
    [
        ({}, 0),
        ({"format": {"name": "reenact", "version": "0.4"}}, 0),
        ({"format": {"name": "reenact", "version": "1.0"}}, 1),
        ({"format": {"name": "reenact", "version": "12.3"}}, 12),
    ],
)
def test_the_major_is_read_from_the_format_field(manifest: Json, major: int) -> None:
    assert major_of(manifest) == major


@pytest.mark.parametrize("form", ["1.0", {}, {"version": "x"}, {"version": ""}, [1]])
def test_a_format_that_cannot_be_read_is_damaged(form: Any) -> None:
    with pytest.raises(RecordingDamaged, match="cannot read the format version"):
        major_of({"format": form})


@pytest.mark.parametrize("name", ["captureId", "runId", "createdAt", "mode"])
def test_a_format_0_manifest_without_a_field_is_refused_with_its_name(name: str) -> None:
    old = {"captureId": "c", "runId": "r", "createdAt": 1, "mode": "capture"}
    del old[name]
    with pytest.raises(RecordingDamaged) as caught:
        migrate_manifest(old, 0)
    assert caught.value.place == f"manifest.json, field {name}"


def test_a_migrated_manifest_is_of_this_format_and_the_old_one_is_untouched() -> None:
    old = {"version": 1, "captureId": "c", "runId": "r", "createdAt": 1, "mode": "capture"}
    new = migrate_manifest(old, 0)
    assert major_of(new) == MAJOR
    assert "format" not in old
