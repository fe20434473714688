"""Which processor is which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reenact.exchange.comparison.steps import ProcessorPair, align_processors, content_of
from reenact.exchange.model import Processor
from tests.unit.exchange.comparison.samples import step


def _aligned(before: list[Processor], after: list[Processor]) -> list[ProcessorPair]:
    return align_processors(before, after, content_of)


def _seqs(pairs: list[ProcessorPair]) -> list[tuple[int | None, int | None]]:
    return [
        (one.before.seq if one.before else None, one.after.seq if one.after else None)
        for one in pairs
    ]


def test_rounds_of_a_loop_do_not_collapse() -> None:
    before = [step("loop", 1), *(step("item", n + 2, 1, n) for n in range(3))]
    after = [step("loop", 1), step("item", 2, 1, 0), step("item", 3, 1, 2)]
    pairs = _aligned(before, after)
    assert _seqs(pairs) == [(1, 1), (2, 2), (3, None), (4, 3)]
    assert [one.path for one in pairs] == ["loop", "loop/item[0]", "loop/item[1]", "loop/item[2]"]


def test_parts_of_a_split_run_in_any_order() -> None:
    before = [step("split", 1), step("part", 2, 1, 0), step("part", 3, 1, 1)]
    after = [step("split", 1), step("part", 2, 1, 1), step("part", 3, 1, 0)]
    pairs = _aligned(before, after)
    assert _seqs(pairs) == [(1, 1), (3, 2), (2, 3)]
    assert [one.moved for one in pairs] == [None, None, None]


def test_the_same_step_under_another_parent_is_another_step() -> None:
    before = [step("a", 1), step("inner", 2, 1), step("b", 3)]
    after = [step("a", 1), step("b", 2), step("inner", 3, 2)]
    assert _seqs(_aligned(before, after)) == [(1, 1), (2, None), (3, 2), (None, 3)]


def test_parents_in_another_order_keep_their_children() -> None:
    before = [step("a", 1), step("x", 2, 1), step("b", 3), step("x", 4, 3)]
    after = [step("b", 1), step("x", 2, 1), step("a", 3), step("x", 4, 3)]
    pairs = _aligned(before, after)
    assert _seqs(pairs) == [(3, 1), (4, 2), (1, 3), (2, 4)]
    assert sum(one.moved is not None for one in pairs) == 1


def test_a_step_that_is_called_once_more_is_found_by_what_it_did() -> None:
    before = [step("send", n, output=n) for n in (1, 2, 3)]
    after = [step("send", 1, output=1), step("send", 2, output="new")]
    after += [step("send", n + 1, output=n) for n in (2, 3)]
    assert _seqs(_aligned(before, after)) == [(1, 1), (None, 2), (2, 3), (3, 4)]


def test_steps_that_are_swapped_are_seen_though_one_comes_twice() -> None:
    before = [step("a", 1), step("b", 2), step("a", 3)]
    after = [step("a", 1), step("a", 2), step("b", 3)]
    assert sum(one.moved is not None for one in _aligned(before, after)) == 1


def test_parents_that_cannot_be_are_no_matter() -> None:
    strange = [step("self", 1, 1), step("later", 2, 9), step("ring", 3, 4), step("ring", 4, 3)]
    assert _seqs(_aligned(strange, strange)) == [(n, n) for n in (1, 2, 3, 4)]


def test_paths_of_deep_nesting_stay_short() -> None:
    deep = [step("p", n, n - 1) for n in range(1, 3_000)]
    pairs = _aligned(deep, deep)
    assert len(pairs) == 2_999
    assert pairs[-1].path == "/".join(["p"] * 16)


def test_ten_thousand_of_one_kind_are_not_compared_each_with_each() -> None:
    """The keys are asked for once per processor: the work is bounded by their number."""
    asked = 0

    def content(one: Processor) -> str:
        nonlocal asked
        asked += 1
        return str(one.output)

    before = [step("send", n + 1, output=n) for n in range(10_000)]
    after = [step("send", n + 1, output=n + 7) for n in range(9_990)]
    pairs = align_processors(before, after, content)
    assert asked == 19_990
    assert sum(one.before is not None and one.after is not None for one in pairs) >= 9_983


_trees = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.sampled_from([None, 0, 1])),
    max_size=12,
).map(
    lambda rows: [
        step(name, seq, min(parent, seq - 1), iteration)
        for seq, (name, parent, iteration) in enumerate(rows, 1)
    ]
)


@given(_trees, _trees)
def test_every_processor_is_listed_once(before: list[Processor], after: list[Processor]) -> None:
    pairs = _aligned(before, after)
    left = [one.before.seq for one in pairs if one.before]
    right = [one.after.seq for one in pairs if one.after]
    assert sorted(left) == [one.seq for one in before]
    assert right == [one.seq for one in after]
    for one in pairs:
        if one.before and one.after:
            assert (one.before.processor_id, one.before.iteration) == (
                one.after.processor_id,
                one.after.iteration,
            )


@given(_trees)
def test_a_tree_is_aligned_with_itself(tree: list[Processor]) -> None:
    pairs = _aligned(tree, tree)
    assert all(one.before == one.after and one.moved is None for one in pairs)
