"""Laws of what is compared and kept of HTTP: URLs, bodies, pieces, codings."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import quote, urlencode

from hypothesis import given
from hypothesis import strategies as st

from reenact.boundaries.http.bodies import describe
from reenact.boundaries.http.encoding import Seen, encode, look
from reenact.boundaries.http.urls import normal_url
from reenact.boundaries.http.wire import Errors, Head, Wire
from reenact.engine.session.session import Session
from reenact.format.canonical import canonical


class _Trusting:
    """As much of a session as the wire asks: nothing is suspect."""

    def suspects(self, text: bytes) -> bool:
        return False


WIRE = Wire(cast("Session", _Trusting()), Errors())
CODINGS = st.sampled_from(["gzip", "deflate", "x-gzip", "gzip, deflate", "identity"])
NASTY = st.text(st.sampled_from("ab/?#&=+%;:@[]\\ .2F\u00fc\u2713\ud800\t\n"), max_size=30)
URLS = st.one_of(
    st.text(max_size=40),
    NASTY,
    st.builds("http://{}/{}?{}".format, NASTY, NASTY, NASTY),
    st.builds("https://example.org/{}?{}".format, st.text(max_size=20), st.text(max_size=20)),
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
PAIRS = st.lists(st.tuples(NAMES, NAMES), max_size=6)
KINDS = st.sampled_from(
    [
        "",
        "application/json",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        'multipart/mixed; boundary="x"',
        "multipart/form-data; boundary",
    ]
)
PART_TEXT = st.lists(
    st.sampled_from(
        [
            b"--x",
            b"--",
            b"\r\n",
            b":",
            b"Content-Disposition: form-data; name=a; filename*=utf-8''%ff",
            b"Content-Type: multipart/mixed; boundary=x",
            b'Content-Type: application/json; a="',
            b"[",
            b"{",
            b"\xff",
            b"text",
        ]
    ),
    max_size=20,
).map(b"".join)
BODIES = st.one_of(st.binary(max_size=60), PART_TEXT, st.text(max_size=30).map(str.encode))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
).filter(lambda value: value is not None)


# URLs


@given(URLS)
def test_a_url_is_made_normal_once(url: str) -> None:
    once = normal_url(url)
    assert normal_url(once) == once


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_different_parameters_does_not_matter(
    pairs: list[tuple[str, str]], chance: Any
) -> None:
    unique = list(dict(pairs).items())
    mixed = chance.sample(unique, len(unique))
    one, other = (f"http://example.org/?{urlencode(each)}" for each in (unique, mixed))
    assert normal_url(one) == normal_url(other)


@given(PAIRS)
def test_the_way_of_escaping_does_not_matter(pairs: list[tuple[str, str]]) -> None:
    plus = urlencode(pairs)
    percent = urlencode(pairs, quote_via=quote)
    every = "&".join("=".join(map(_escape_all, pair)) for pair in pairs)
    found = {normal_url(f"http://example.org/?{query}") for query in (plus, percent, every)}
    assert len(found) == 1


def _escape_all(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


@given(PAIRS, PAIRS)
def test_different_parameters_are_different(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    def in_order(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(pairs, key=lambda pair: quote(pair[0]))

    same = in_order(one) == in_order(other)
    first, second = (normal_url(f"http://example.org/?{urlencode(each)}") for each in (one, other))
    assert (first == second) == same


# Bodies


@given(KINDS, BODIES)
def test_any_body_has_a_description_that_can_be_written(kind: str, body: bytes) -> None:
    found = describe((("content-type", kind),), body)
    assert canonical(found)
    assert bool(found) == bool(body)


@given(st.text(max_size=40), BODIES)
def test_any_content_type_is_put_up_with(kind: str, body: bytes) -> None:
    found = describe((("content-type", kind), ("content-encoding", kind)), body)
    assert set(found) <= {"type", "body"}


@given(JSON, st.sampled_from([None, 2]))
def test_json_is_compared_by_value(value: Any, indent: int | None) -> None:
    spaced = json.dumps(value, indent=indent, ensure_ascii=False, sort_keys=True)
    headers = (("content-type", "application/json"),)
    one, other = (describe(headers, text.encode()) for text in (json.dumps(value), spaced))
    assert one["type"] == "json"
    assert one["body"] == value
    assert canonical(one) == canonical(other)


@given(PAIRS.filter(bool))
def test_a_form_keeps_every_pair(pairs: list[tuple[str, str]]) -> None:
    kind = (("content-type", "application/x-www-form-urlencoded"),)
    found = describe(kind, urlencode(pairs).encode())
    assert sorted(found["body"]) == sorted(map(list, pairs))


@given(st.lists(st.binary(max_size=20).filter(lambda part: b"\r\n--x" not in part), max_size=4))
def test_the_boundary_of_parts_does_not_matter(parts: list[bytes]) -> None:
    def body(boundary: bytes) -> bytes:
        head = b"Content-Disposition: form-data; name=a\r\n\r\n"
        lines = [b"--" + boundary + b"\r\n" + head + part + b"\r\n" for part in parts]
        return b"".join(lines) + b"--" + boundary + b"--\r\n"

    one, other = (
        describe((("content-type", f"multipart/form-data; boundary={name}"),), body(name.encode()))
        for name in ("x-1", "x-22")
    )
    assert one == other
    assert len(one["body"]) == len(parts)


# Pieces


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_pieces_come_back_exactly(pieces: list[bytes]) -> None:
    head = Head(status=200)
    assert WIRE.load(WIRE.dump([head, *pieces], None)) == [head, *pieces]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), st.data())
def test_text_may_be_cut_anywhere(text: str, data: st.DataObject) -> None:
    body = text.encode()
    ends = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[a:b] for a, b in zip([0, *ends], [*ends, len(body)], strict=True)]
    dumped = WIRE.dump([Head(status=200), *pieces], None)
    assert dumped["body"] == text
    assert WIRE.load(dumped)[1:] == pieces


# Codings


@given(st.binary(max_size=200), CODINGS)
def test_codings_are_undone(body: bytes, coding: str) -> None:
    whole = None if coding == "identity" else Seen("whole", body)
    assert look(encode(body, coding), coding) == whole


@given(st.binary(max_size=200), CODINGS, st.integers(0, 220))
def test_a_part_of_an_encoded_body_is_a_part_of_the_text(
    body: bytes, coding: str, end: int
) -> None:
    seen = look(encode(body, coding)[:end], coding)
    assert seen is None or body.startswith(seen.text)


@given(st.binary(max_size=100), st.text(max_size=20))
def test_any_bytes_are_put_up_with(body: bytes, coding: str) -> None:
    seen = look(body, coding)
    assert seen is None or seen.end in ("whole", "broken", "hidden")


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["gzip", "deflate"]), st.data())
def test_a_changed_byte_hides_nothing_that_stands_before_it(
    body: bytes, coding: str, data: st.DataObject
) -> None:
    packed = encode(body, coding)
    place = data.draw(st.integers(len(packed) - 4, len(packed) - 1))
    changed = bytearray(packed)
    changed[place] ^= 0xFF
    seen = look(bytes(changed), coding)
    assert seen == Seen("broken", body)
