"""Laws of differences: empty for equals, and enough to make one value out of the other."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.diff.values import Difference, differences
from reenact.format.canonical import canonical
from reenact.format.json_path import Path, normalised_path
from reenact.policy.matching import ignored_paths
from tests.property.values import VALUES

# Values that share parts, so that there is something to align.
SMALL = st.recursive(
    st.sampled_from([0, 1, 1.0, True, None, "a", b"a"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)
ANY = st.one_of(VALUES, SMALL)


def apply(found: list[Difference], value: Any) -> Any:
    """What ``value`` becomes: first what changed, then from the end what is gone, then the new."""
    holder = [copy.deepcopy(value)]
    changed = [one for one in found if one.kind == "changed"]
    removed = [one for one in reversed(found) if one.kind == "removed"]
    added = [one for one in found if one.kind == "added"]
    for one in (*changed, *removed, *added):
        _apply(one, holder)
    return holder[0]


def _apply(one: Difference, holder: Any) -> None:
    path: Path = (0, *one.path)
    here = holder
    for step in path[:-1]:
        here = here[step]
    if one.kind == "removed":
        del here[path[-1]]
    elif one.kind == "added" and isinstance(here, list):
        here.insert(int(path[-1]), one.observed)
    else:
        here[path[-1]] = one.observed


@given(ANY, ANY)
def test_none_exactly_for_equals(one: Any, other: Any) -> None:
    assert (differences(one, other) == []) == (canonical(one) == canonical(other))
    assert differences(one, copy.deepcopy(one)) == []


@given(st.one_of(st.tuples(ANY, ANY), st.tuples(SMALL, SMALL)))
def test_applying_them_gives_the_observed_value(values: tuple[Any, Any]) -> None:
    expected, observed = values
    changed = apply(differences(expected, observed), expected)
    assert canonical(changed) == canonical(observed)


@given(SMALL, SMALL)
def test_turned_around_they_are_the_same_places(one: Any, other: Any) -> None:
    there, back = differences(one, other), differences(other, one)
    opposite = {"changed": "changed", "added": "removed", "removed": "added"}
    assert [(x.path, x.kind) for x in there] == [(x.path, opposite[x.kind]) for x in back]


@given(SMALL, SMALL, st.integers(0, 5))
def test_a_limit_cuts_the_end_off(one: Any, other: Any, limit: int) -> None:
    assert differences(one, other, limit=limit) == differences(one, other)[:limit]


@given(SMALL, SMALL)
def test_no_place_is_inside_another_or_named_twice(one: Any, other: Any) -> None:
    found = [(x.path, x.kind) for x in differences(one, other)]
    paths = [path for path, _ in found]
    assert len(set(found)) == len(found)
    assert not any(a != b and b[: len(a)] == a for a in paths for b in paths)


@given(st.lists(SMALL, max_size=8), SMALL, st.integers(0, 8))
def test_one_inserted_item_is_one_addition(items: list[Any], new: Any, place: int) -> None:
    longer = [*items[:place], new, *items[place:]]
    (one,) = differences(items, longer)
    assert (one.kind, len(one.path)) == ("added", 1)


@given(st.dictionaries(st.text(max_size=6), st.integers(), min_size=1, max_size=4))
def test_a_normalised_path_can_be_ignored(value: dict[str, int]) -> None:
    """What the JSON form of a divergence says can be pasted into a policy."""
    name = min(value)
    left = ignored_paths([normalised_path((name,))]).strip(value)
    assert left == {key: item for key, item in value.items() if key != name}
