"""The law of the screen: of a text that is still growing nothing is written that is secret later.

Every secret is put together from halves: the repository itself contains no token.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.policy.redaction.redactor import Profile, Redactor, Screen
from tests.property.planted import BLANKS, NAMES, PLANTED, SHAPED, WITNESS

KNOWN = "correct horse " + WITNESS + " staple"
PROFILES: tuple[Profile, ...] = ("default", "strict")

_WORDS = st.sampled_from(
    [
        "data: ",
        "{",
        "}",
        '"text":',
        '"id": ',
        "the token count ",
        "höre ",
        "\n\n",
        " ",
        "50% ",
        "a@b",
    ]
)
_NAMED = st.builds(
    lambda name, blank, assign, quote: f"{name}{blank}{assign}{quote}{PLANTED}{quote}",
    st.sampled_from(NAMES),
    st.sampled_from(BLANKS),
    st.sampled_from([": ", "=", '":"', '": "']),
    st.sampled_from(['"', "'", ""]),
)
_SECRETS = st.sampled_from([*SHAPED, KNOWN, "Bearer  " + PLANTED, "://user:" + PLANTED + "@host"])


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """A text with secrets in it, cut anywhere."""
    parts = draw(st.lists(st.one_of(_WORDS, _SECRETS, _NAMED), max_size=12))
    text = "".join(parts).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _first_secret(redactor: Redactor, text: str) -> int:
    """Where it begins, in bytes. That a key begins is none, though it is taken out with it."""
    found = redactor._texts.find(text)
    if not found:
        return len(text.encode())
    start = found[0].start
    if found[0].rule == "shape.pem":
        start = text.index("PRIV" + "ATE", start)
    return len(text[:start].encode())


@pytest.mark.parametrize("declared", [[], [KNOWN]], ids=["nothing known", "known"])
@pytest.mark.parametrize("profile", PROFILES)
@given(pieces=streams())
def test_what_is_written_early_stands_before_every_secret(
    profile: Profile, declared: list[str], pieces: list[bytes]
) -> None:
    redactor = Redactor(profile, declared=declared)
    whole = b"".join(pieces).decode()
    first = _first_secret(redactor, whole)
    screen = Screen(redactor)
    written = [screen.add(piece) for piece in pieces]
    assert written == sorted(written)
    assert all(one <= first for one in written)


@given(pieces=st.lists(st.sampled_from([b"data: x\n\n", b"word ", b"more words\n"]), max_size=40))
def test_where_nothing_is_suspect_all_words_are_written_at_once(pieces: list[bytes]) -> None:
    screen = Screen(Redactor("default"))
    size = 0
    for piece in pieces:
        size += len(piece)
        assert screen.add(piece) == size


@given(pieces=streams())
def test_without_redaction_everything_is_written_at_once(pieces: list[bytes]) -> None:
    screen = Screen(Redactor("none"))
    size = 0
    for piece in pieces:
        size += len(piece)
        assert screen.add(piece) == size
