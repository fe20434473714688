"""Values that a recording must hold, as Hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["DATA", "NAMES", "NUMBERS", "TEXTS", "VALUES"]

# Text without lone surrogates, with a taste for the characters that encoders get wrong.
TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from('\x00\x1f\x7f"\\/\u2028\ufb33\uffff\U00010000\U0001f600$'),
    ),
    max_size=12,
)
NAMES = st.one_of(
    TEXTS,
    st.sampled_from(
        [
            "$blob",
            "$bytes",
            "$delta",
            "$$blob",
            "$$$delta",
            "$",
            "$a",
            "timing",
            "key",
            "\U0001f600",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**100), max_value=10**100),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e15, 1e16, 1e21, 1e-5, 1e-6, 5e-324, 2**53, 2**64]),
)
_LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.binary(max_size=12))


def _inner(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(values, max_size=5), st.dictionaries(NAMES, values, max_size=5))


VALUES: st.SearchStrategy[Any] = st.recursive(_LEAVES, _inner, max_leaves=15)
DATA: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAMES, VALUES, max_size=5)
