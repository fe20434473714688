"""Content codings are undone, as far as there is something and it is not too much, and done again."""

from __future__ import annotations

import gzip
import importlib.util
import tracemalloc
import zlib

import pytest

from reenact.boundaries.http.encoding import MOST, Seen, coding_of, encode, look

TEXT = b"All work and no play makes Jack a dull boy. " * 50
MIB = 1 << 20


def _is_here(*modules: str) -> bool:
    return any(importlib.util.find_spec(module) is not None for module in modules)


CODINGS = ["gzip", "x-gzip", "deflate"]
CODINGS += ["br"] if _is_here("brotli", "brotlicffi") else []
CODINGS += ["zstd"] if _is_here("backports", "zstandard", "compression") else []


def _read(body: bytes, coding: str) -> bytes:
    seen = look(body, coding)
    assert seen is not None
    assert seen.end == "whole"
    return seen.text


@pytest.mark.parametrize("coding", [*CODINGS, "gzip, deflate", "GZIP", "identity, gzip"])
def test_there_and_back(coding: str) -> None:
    assert _read(encode(TEXT, coding), coding) == TEXT


@pytest.mark.parametrize("coding", ["", "identity", " , "])
def test_where_there_is_no_coding_there_is_nothing_to_undo(coding: str) -> None:
    assert encode(TEXT, coding) == TEXT
    assert look(TEXT, coding) is None


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_that_breaks_off_is_read_as_far_as_it_goes(coding: str) -> None:
    whole = encode(TEXT, coding)
    assert TEXT.startswith(_read(whole[: len(whole) - 10], coding))


def test_several_gzip_members_are_one_text() -> None:
    assert _read(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip") == b"one two"


def test_many_small_members_are_read_in_one_pass() -> None:
    """Each of them used to copy all that follow it."""
    body = gzip.compress(b"x") * 20_000
    tracemalloc.start()
    try:
        assert _read(body, "gzip") == b"x" * 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


def test_what_follows_the_last_member_does_not_count() -> None:
    assert _read(gzip.compress(TEXT) + b"\0\0 padding", "gzip") == TEXT


def test_deflate_without_a_header() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert _read(packer.compress(TEXT) + packer.flush(), "deflate") == TEXT


@pytest.mark.parametrize("coding", [*CODINGS, "compress", "aws-chunked", "utf-8"])
def test_what_is_not_so_encoded_is_not_decoded(coding: str) -> None:
    assert look(b"\xff\xfe this is none of it", coding) is None


def test_a_coding_without_a_library_hides_what_is_in_it() -> None:
    missing = [name for name in ("br", "zstd") if name not in CODINGS]
    for name in missing:
        assert look(b"\x0b\x02\x80abc\x03", name) == Seen("hidden")
        assert look(b"\x03abc", name) == Seen("hidden")
        assert look("hello, grün\r\n".encode(), name) is None


def test_the_same_text_is_packed_into_the_same_bytes() -> None:
    assert encode(TEXT, "gzip") == encode(TEXT, "gzip")


# Bytes that do not fit


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_wrong_checksum_does_not_hide_the_text(coding: str, size: int) -> None:
    text = (TEXT * 50)[:size]
    body = encode(text, coding)
    assert look(body[:-4] + b"oops", coding) == Seen("broken", text)


def test_a_second_member_that_is_broken_does_not_hide_its_text() -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two")[:-4] + b"oops"
    assert look(body, "gzip") == Seen("broken", b"one two")


def test_an_inner_coding_that_is_none_does_not_hide_the_text() -> None:
    assert look(gzip.compress(b"\xff plain"), "deflate, gzip") == Seen("broken", b"\xff plain")


def test_an_inner_coding_that_is_unknown_does_not_hide_the_text() -> None:
    assert look(gzip.compress(TEXT), "aws-chunked, gzip") == Seen("broken", TEXT)


# Bombs


def _bomb(coding: str, size: int) -> bytes:
    """``size`` zeros, without having them all in memory where that is possible."""
    window = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}.get(coding)
    if window is None:
        return encode(bytes(size), coding)
    packer = zlib.compressobj(9, wbits=window)
    pieces = [packer.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join([*pieces, packer.flush()])


BOMBS = [coding for coding in CODINGS if coding != "x-gzip"]


@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_is_read_no_further_than_is_allowed(coding: str) -> None:
    body = _bomb(coding, 2 * MOST)
    assert len(body) < MIB
    tracemalloc.start()
    try:
        seen = look(body, coding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == Seen("hidden")
    # What a last slice may stand for comes on top.
    assert peak < MOST + 40 * MIB


@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_in_a_bomb_is_read_no_further(coding: str) -> None:
    body = encode(_bomb(coding, 2 * MOST), coding)
    assert look(body, f"{coding}, {coding}") == Seen("hidden")


@pytest.mark.parametrize("coding", BOMBS)
def test_the_limit_is_exact(coding: str) -> None:
    body = encode(TEXT, coding)
    assert look(body, coding, most=len(TEXT)) == Seen("whole", TEXT)
    assert look(body, coding, most=len(TEXT) - 1) == Seen("hidden")


def test_a_bomb_may_have_many_members() -> None:
    body = gzip.compress(bytes(MIB)) * 65
    assert look(body, "gzip") == Seen("hidden")


def test_more_codings_than_anybody_needs_are_not_undone() -> None:
    coding = ", ".join(["gzip"] * 5)
    assert _read(encode(TEXT, coding), coding) == TEXT
    assert look(encode(TEXT, f"{coding}, gzip"), f"{coding}, gzip") == Seen("hidden")
    assert look(b"\xff none of it", f"{coding}, gzip") is None


# Headers


def test_all_headers_together_name_the_codings() -> None:
    headers = (("Content-Encoding", "gzip"), ("X", "y"), ("content-encoding", "deflate, br"))
    assert coding_of(headers) == "gzip, deflate, br"
    assert coding_of((("Content-Type", "gzip"),)) is None
