"""Laws of paths."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.format.json_path import Path, join, parse

PATHS = st.lists(st.one_of(st.text(max_size=8), st.integers(0, 10**17)), max_size=6).map(tuple)


@given(PATHS)
@example(("a'b", "\\", "\\'", "\n", "", "]", "['x']", "0", 0))
def test_parse_reads_what_join_writes(path: Path) -> None:
    assert parse(join(path)) == path


@given(PATHS, PATHS)
def test_different_paths_have_different_texts(one: Path, other: Path) -> None:
    assert (join(one) == join(other)) == (one == other)


@given(st.text(st.sampled_from("$.[]'\\a0 é"), max_size=12))
def test_any_text_is_a_path_or_a_usage_error(text: str) -> None:
    try:
        path = parse(text)
    except UsageError:
        return
    assert parse(join(path)) == path
