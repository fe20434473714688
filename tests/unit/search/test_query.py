"""Words, phrases, beginnings, and what must not be there."""

from __future__ import annotations

import pytest

from reenact.errors import UsageError
from reenact.search.query import Term, fold, read_terms


@pytest.mark.parametrize(
    "words,expected",
    [
        (["warm"], [Term("warm")]),
        (["rate limit"], [Term("rate limit")]),
        (["wea*"], [Term("wea", starts=True)]),
        (['"rate limit" 429 -cold'], [Term("rate limit"), Term("429"), Term("cold", True)]),
        (['-"too many"'], [Term("too many", True)]),
        (["a-b", "東京"], [Term("a-b"), Term("東京")]),
        (["*"], [Term("*")]),
    ],
)
def test_words_of_a_command_line(words: list[str], expected: list[Term]) -> None:
    assert list(read_terms(words)) == expected


def test_what_is_unwanted_may_be_said_apart() -> None:
    assert read_terms(["warm"], ["co*"]) == (Term("warm"), Term("co", True, True))


@pytest.mark.parametrize("words", [[""], ["  "], ['""']])
def test_nothing_is_no_word(words: list[str]) -> None:
    with pytest.raises(UsageError, match="empty"):
        read_terms(words)


@pytest.mark.parametrize(
    "term,text,expected",
    [
        (Term("WARM"), "lukewarm", True),
        (Term("chatcmpl-12"), "id: chatcmpl-1234", True),
        (Term("v1/chat"), "https://x.example/v1/chat/completions", True),
        (Term("京タ"), "東京タワー", True),
        (Term("Grüße"), "GRÜSSE und grüße", True),
        (Term("weather", starts=True), "get_weather", True),
        (Term("warm", starts=True), "lukewarm", False),
        (Term("two  words"), "two\nwords", True),
        (Term("two words"), "twowords", False),
        (Term("a.c"), "abc", False),
        (Term("ΣΊΣΥΦΟΣ"), "σίσυφος", True),
    ],
)
def test_a_text_has_a_term(term: Term, text: str, expected: bool) -> None:
    assert term.is_in(text) is expected
    assert bool(term.spans(text)) is expected


def test_folding_keeps_every_character_in_its_place() -> None:
    for text in ("Straße İstanbul ﬁn", "ΑΣ", "ǅ", "plain"):
        assert len(fold(text)) == len(text)


def test_the_index_is_asked_for_pieces_of_three_and_not_at_all_for_less() -> None:
    assert Term("warm").grams() == '"arm" AND "war"'
    assert Term('a"bc').grams() == '"""bc" AND "a""b"'
    assert Term("東京").grams() == ""
    assert Term("a b").grams() == ""
