"""The screen: how far a growing text may be written. Secrets are put together from halves."""

from __future__ import annotations

from base64 import b64encode

from reenact.policy.redaction.redactor import Redactor, Screen

TOKEN = "Zz9" + "Planted0Secret" + "Xx7"


def _written(*pieces: str, redactor: Redactor | None = None) -> list[str]:
    """What had been written after each piece."""
    screen = Screen(redactor or Redactor("default"))
    text = "".join(pieces)
    return [text.encode()[: screen.add(piece.encode())].decode() for piece in pieces]


def test_a_word_is_held_back_until_it_has_ended() -> None:
    told = ["Hello ", "Hello world, ", "Hello world, how "]
    assert _written("Hello wor", "ld, how", " are") == told


def test_a_token_in_two_pieces_is_written_in_neither() -> None:
    token = "sk-" + TOKEN
    assert _written("use ", token[:9], token[9:], " please ") == ["use "] * 4


def test_the_word_before_a_secret_is_not_forgotten() -> None:
    secret = b64encode(b"user:" + TOKEN.encode()).decode()
    assert _written("say Basic ", secret, "  and go ") == ["say Basic "] * 3


def test_the_lines_of_a_key_are_not_written() -> None:
    head = "-----BEGIN PRIV" + "ATE KEY-----\n"
    assert _written("here: ", head, "MIIEabc\n", "0123\n", "\n\nand on ") == ["here: "] * 5


def test_a_doubt_that_goes_away_holds_nothing_up() -> None:
    assert _written("the ", "password", " rules ") == ["the ", "the ", "the password rules "]


def test_a_known_secret_of_several_words_is_held_back_from_its_first() -> None:
    redactor = Redactor("default", declared=["correct horse battery"])
    told = _written("x " * 100, "correct ", "horse ", "battery ", "y " * 100, redactor=redactor)
    assert not any("correct" in one for one in told)
    assert told[-1].startswith("x x ")


def test_words_that_are_no_secret_are_written_past_the_reach_of_a_known_one() -> None:
    redactor = Redactor("default", declared=["correct horse battery"])
    told = _written("x " * 200, "correct answer ", "y " * 200, redactor=redactor)
    assert "correct answer y" in told[-1]


def test_a_doubt_that_lasts_is_looked_at_no_more() -> None:
    screen = Screen(Redactor("default"))
    assert screen.add(b"ok ") == 3
    for _ in range(40):
        assert screen.add(b'"api_key": "' + b"words " * 1000) == 3
    assert len(screen._tail) == 0


def test_what_has_been_written_is_not_kept() -> None:
    screen = Screen(Redactor("default"))
    for number in range(1, 300):
        assert screen.add(b"some words " * 20) == number * 220
    assert len(screen._tail) < 4_096


def test_a_word_without_end_is_written_but_for_its_end() -> None:
    screen = Screen(Redactor("default"))
    written = [screen.add(b"QUJD" * 256) for _ in range(200)]
    assert written == sorted(written)
    assert 100_000 < written[-1] < 200 * 1_024 - 65_000
    assert len(screen._tail) < 80_000


def test_a_long_word_that_is_a_secret_is_not() -> None:
    screen = Screen(Redactor("default"))
    assert screen.add(b"say ") == 4
    assert {screen.add(b"sk-" + b"A1b2" * 256) for _ in range(300)} == {4}


def test_strict_holds_back_what_only_strict_takes_out() -> None:
    mail = "someone" + "@" + "example.net"
    assert _written("to ", mail, " now ")[-1] == f"to {mail} now "
    assert _written("to ", mail, " now ", redactor=Redactor("strict")) == ["to "] * 3
