"""Encoded bodies: what of them is written, and what a replay serves."""

from __future__ import annotations

import gzip
import random
import string
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Redactor
from reenact.boundaries.http.encoding import MOST, encode
from reenact.boundaries.http.stored_body import kept_body, served_body
from reenact.engine.session.session import Session
from reenact.policy.redaction.redactor import PLACEHOLDER, Profile
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets in packed bodies")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))
GZIP = (("Content-Encoding", "gzip"),)
SIX = ", ".join(["gzip"] * 6)
CLEAN = gzip.compress(b'{"max_tokens": 3, "note": "nothing to hide"}')
TELLING = gzip.compress(f'{{"a": "{SECRET}"}}'.encode())

Kept = Callable[[Profile, bytes, str], dict[str, Any]]


def _session(folder: Path, profile: Profile) -> Session:
    redaction = Redactor(profile, environ={})
    return Studio(folder).session(mode="record", redaction=redaction)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """The fields in which a body is kept, redacted as they would be."""

    def keep(profile: Profile, body: bytes, coding: str) -> dict[str, Any]:
        with _session(tmp_path / profile, profile) as session:
            fields = kept_body(session, body, coding)
        written: dict[str, Any] = Redactor(profile, environ={}).redact(fields).value
        return written

    return keep


@pytest.mark.parametrize("profile", ["none", "default", "strict"])
def test_a_body_without_secrets_is_kept_as_it_came(kept: Kept, profile: Profile) -> None:
    """Packed again it would be other bytes, and of another length."""
    assert kept(profile, CLEAN, "gzip") == {"body": CLEAN}


@pytest.mark.parametrize("profile", ["default", "strict"])
def test_a_body_with_a_secret_is_kept_decoded(kept: Kept, profile: Profile) -> None:
    fields = kept(profile, TELLING, "gzip")
    assert fields == {"body": f'{{"a": "{PLACEHOLDER}"}}', "decoded": "gzip"}
    served = served_body(fields, GZIP)
    assert served is not None
    assert gzip.decompress(served).decode() == fields["body"]


def test_without_redaction_nothing_is_looked_at(kept: Kept) -> None:
    assert kept("none", TELLING, "gzip") == {"body": TELLING}


@pytest.mark.parametrize("coding", ["gzip, gzip", "x-gzip,gzip"])
def test_a_secret_behind_two_codings_is_found(kept: Kept, coding: str) -> None:
    fields = kept("default", gzip.compress(TELLING), coding)
    assert fields == {"body": f'{{"a": "{PLACEHOLDER}"}}', "decoded": coding}


def _bomb(text: bytes) -> bytes:
    """``text`` behind more than is looked at."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(bytes(1 << 20)) for _ in range((MOST >> 20) + 1)]
    return b"".join([*parts, packer.compress(text), packer.flush()])


HIDDEN = {
    "a secret behind a bomb": (_bomb(SECRET.encode()), "gzip"),
    "a bomb in a bomb": (gzip.compress(_bomb(SECRET.encode())), "gzip, gzip"),
    "a secret before a fault": (TELLING[:-8] + b"no check", "gzip"),
    "a secret in an unknown coding": (TELLING, "aws-chunked, gzip"),
    "more codings than are undone": (encode(TELLING, "gzip, gzip, gzip, gzip, gzip"), SIX),
}


@pytest.mark.parametrize("body, coding", HIDDEN.values(), ids=HIDDEN.keys())
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_what_cannot_be_looked_at_whole_is_not_written(
    kept: Kept, profile: Profile, body: bytes, coding: str
) -> None:
    fields = kept(profile, body, coding)
    assert fields["bodySecret"] == PLACEHOLDER.encode()
    assert fields["unread"]
    assert "body" not in fields


def test_a_fault_behind_nothing_secret_is_kept(kept: Kept) -> None:
    body = CLEAN[:-8] + b"no check"
    assert kept("default", body, "gzip") == {"body": body}


def test_the_person_at_the_screen_is_told(tmp_path: Path) -> None:
    studio = Studio(tmp_path)
    with studio.session(mode="record") as session:
        kept_body(session, TELLING[:-8] + b"no check", "gzip")
    [warning] = studio.warnings
    assert "stored as a secret" in warning
    assert "without a content coding" in warning


# Served


def test_with_the_key_it_is_served_as_it_came() -> None:
    assert served_body({"bodySecret": TELLING, "unread": "…"}, GZIP) == TELLING


@pytest.mark.parametrize("mark", [PLACEHOLDER, "***REDACTED:0123456789ab***"])
def test_without_the_key_a_client_can_read_the_placeholder(mark: str) -> None:
    served = served_body({"bodySecret": mark.encode(), "unread": "…"}, GZIP)
    assert served is not None
    assert gzip.decompress(served).decode() == mark


@pytest.mark.parametrize("headers", [(), (("content-encoding", "aws-chunked"),)], ids=repr)
def test_what_cannot_be_packed_is_served_as_it_is(headers: Any) -> None:
    fields = {"bodySecret": PLACEHOLDER, "unread": "…"}
    assert served_body(fields, headers) == PLACEHOLDER.encode()


def test_no_body_stays_none() -> None:
    assert served_body({}, GZIP) is None
