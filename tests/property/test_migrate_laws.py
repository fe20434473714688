"""Migration composes: two steps in one go are the two steps one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.store.rewrite import Step, migrate_events, migrate_manifest
from tests.property.values import DATA, NAMES

Json = dict[str, Any]


def rename(old: str, new: str) -> Callable[[Json], Json]:
    return lambda one: {new if name == old else name: item for name, item in one.items()}


def drop(name: str, _: str) -> Callable[[Json], Json]:
    return lambda one: {key: item for key, item in one.items() if key != name}


def wrap(name: str, other: str) -> Callable[[Json], Json]:
    return lambda one: {name: dict(one), other: len(one)}


CHANGES = st.builds(
    lambda change, a, b: change(a, b), st.sampled_from([rename, drop, wrap]), NAMES, NAMES
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Step, ...]:
    count = draw(st.integers(1, 5))
    steps = [Step(major, draw(CHANGES), draw(CHANGES)) for major in range(count)]
    return tuple(draw(st.permutations(steps)))


@given(chains(), DATA, st.data())
def test_a_manifest_by_way_of_any_middle_version_is_the_same(
    steps: tuple[Step, ...], manifest: Json, data: st.DataObject
) -> None:
    last = len(steps)
    middle = data.draw(st.integers(0, last))
    half = migrate_manifest(manifest, 0, target=middle, steps=steps)
    assert migrate_manifest(half, middle, target=last, steps=steps) == migrate_manifest(
        manifest, 0, target=last, steps=steps
    )


@given(chains(), st.lists(DATA, max_size=4), st.data())
def test_events_by_way_of_any_middle_version_are_the_same(
    steps: tuple[Step, ...], events: list[Json], data: st.DataObject
) -> None:
    last = len(steps)
    middle = data.draw(st.integers(0, last))
    half = migrate_events(events, 0, target=middle, steps=steps)
    whole = list(migrate_events(events, 0, target=last, steps=steps))
    assert list(migrate_events(half, middle, target=last, steps=steps)) == whole
    assert len(whole) == len(events)
