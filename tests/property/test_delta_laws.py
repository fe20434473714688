"""Laws of deltas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from reenact.format.canonical import exact
from reenact.format.delta import apply, diff, shorten

# Characters of one to four bytes that share their first or last bytes.
CHARACTERS = r"\n\"u0" "ab©éèêë€₭\u2028\U0001f600\U0001f601\U0001f641"
TEXTS = st.text(st.sampled_from(CHARACTERS), max_size=200).map(str.encode)
PIECES = st.lists(
    st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=60), min_size=1, max_size=8
)


@st.composite
def editions(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A base, a side, and a target put together from parts of both and new text."""
    pieces = draw(PIECES)
    rows = st.lists(st.integers(0, len(pieces) - 1), max_size=12)
    base, side, target = ("".join(pieces[row] for row in draw(rows)) for _ in range(3))
    cut = draw(st.integers(0, len(target)))
    target = target[:cut] + draw(st.text(st.sampled_from(CHARACTERS), max_size=40)) + target[cut:]
    return base.encode(), side.encode(), target.encode()


def check(base: bytes, side: bytes, target: bytes) -> None:
    ops = diff(base, target, side)
    assert apply(base + side, ops) == target
    assert apply(base + side, json.loads(json.dumps(shorten(ops)))) == target
    whole = base + side
    for op in ops:
        if isinstance(op, list):
            (whole[op[0] : op[0] + op[1]]).decode()  # a copy is text by itself
            assert op[1] > 0
        else:
            assert op


@given(TEXTS, TEXTS, TEXTS)
@example(b"", b"", b"")
@example("é".encode(), "è".encode(), "éè".encode())
def test_any_text_is_rebuilt_from_any_other(base: bytes, side: bytes, target: bytes) -> None:
    check(base, side, target)


@given(editions())
def test_an_edition_is_rebuilt(texts: tuple[bytes, bytes, bytes]) -> None:
    check(*texts)


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_arbitrary_unicode_is_rebuilt(base: str, side: str, target: str) -> None:
    check(*(text.encode("utf-8", "replace") for text in (base, side, target)))


@given(st.lists(st.text(max_size=30), min_size=30, max_size=60), st.text(max_size=60))
def test_what_an_append_costs_does_not_depend_on_what_was_there(
    history: list[str], new: str
) -> None:
    def request(messages: list[str]) -> bytes:
        return exact({"messages": [m.encode("utf-8", "replace") for m in messages], "model": "m"})

    base, target = request([*history, "last"]), request([*history, "last", new])
    ops: list[Any] = diff(base, target)
    cost = len(exact(ops))
    added = len(target) - len(base)
    assert apply(base, ops) == target
    assert cost <= added + 60


@given(st.integers(1_000, 20_000), TEXTS)
def test_growing_at_the_end_costs_the_new_text_only(size: int, new: bytes) -> None:
    base = bytes(97 + number * number % 26 for number in range(size))
    ops = diff(base, base + new)
    assert apply(base, ops) == base + new
    assert sum(len(op.encode()) for op in ops if isinstance(op, str)) <= len(new)
