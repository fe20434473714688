"""Content codings are undone, as far as there is something, and done again."""

from __future__ import annotations

import gzip
import importlib.util
import zlib

import pytest

from reenact.boundaries.coding import decode, encode

TEXT = b"All work and no play makes Jack a dull boy. " * 50
MISSING = {
    "br": importlib.util.find_spec("brotli") is None,
    "zstd": importlib.util.find_spec("backports") is None,
}


def _there(coding: str) -> bool:
    return not any(missing and name in coding for name, missing in MISSING.items())


CODINGS = [name for name in ("gzip", "x-gzip", "deflate", "br", "zstd") if _there(name)]


@pytest.mark.parametrize("coding", [*CODINGS, "gzip, deflate", "identity", "", "GZIP"])
def test_there_and_back(coding: str) -> None:
    assert decode(encode(TEXT, coding), coding) == TEXT


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_that_breaks_off_is_read_as_far_as_it_goes(coding: str) -> None:
    whole = encode(TEXT, coding)
    read = decode(whole[: len(whole) - 10], coding)
    assert read is not None
    assert TEXT.startswith(read)


def test_several_gzip_members_are_one_text() -> None:
    assert decode(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip") == b"one two"


def test_what_follows_the_last_member_does_not_count() -> None:
    assert decode(gzip.compress(TEXT) + b"\0\0 padding", "gzip") == TEXT


def test_deflate_without_a_header() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert decode(packer.compress(TEXT) + packer.flush(), "deflate") == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "compress", "aws-chunked"])
def test_what_is_not_so_encoded_is_not_decoded(coding: str) -> None:
    assert decode(b"\xff\xfe this is none of it", coding) is None


def test_the_same_text_is_packed_into_the_same_bytes() -> None:
    assert encode(TEXT, "gzip") == encode(TEXT, "gzip")
