"""What the operating system's generator gives is a secret: it is in no file, and no message tells."""

from __future__ import annotations

import os
import random
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reenact
from reenact.errors import DivergenceError
from reenact.format.canonical import canonical, digest_bytes
from reenact.policy.redaction.redactor import Profile

SIZE = 24

WAYS: dict[str, Callable[[], bytes]] = {
    "os.urandom": lambda: os.urandom(SIZE),
    "os.getrandom": lambda: os.getrandom(SIZE),
    "token_bytes": lambda: secrets.token_bytes(SIZE),
    "token_hex": lambda: bytes.fromhex(secrets.token_hex(SIZE)),
    "randbits": lambda: secrets.randbits(SIZE * 8).to_bytes(SIZE, "big"),
    "SystemRandom": lambda: random.SystemRandom().randbytes(SIZE),
    "getrandbits": lambda: random.SystemRandom().getrandbits(SIZE * 8).to_bytes(SIZE, "big"),
}

_LIBRARY = """
import secrets

def draw(size):
    return secrets.token_bytes(size)
"""


def _library() -> Any:
    module = ModuleType("keys_and_tokens")
    module.__file__ = "/x/site-packages/keys_and_tokens.py"
    exec(_LIBRARY, vars(module))
    return module


def _program() -> list[bytes]:
    """Drawn by the program and by a library, one alone, and several in a row."""
    session, library = reenact.current(), _library()
    assert session is not None
    found = []
    for draw in WAYS.values():
        found += [draw(), draw(), library.draw(SIZE)]
        session.call("between", {}, lambda: 1, capability="net.fetch")
        found.append(draw())
        session.call("between", {}, lambda: 1, capability="net.fetch")
    return found


def _needles(secret: bytes) -> Iterator[bytes]:
    """The forms in which it could be read, and the digests that would tell a short one."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    yield b64encode(secret)[:-4]
    yield urlsafe_b64encode(secret)[:-4]
    yield str(int.from_bytes(secret, "big")).encode()
    yield str(int.from_bytes(secret, "little")).encode()
    for value in (secret, secret.hex(), {"drawnSecret": secret.hex()}):
        for wrapped in (value, [value], [[value]]):
            yield digest_bytes(canonical(wrapped)).encode()


def _told(folder: Path, said: list[str]) -> bytes:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return b"\n".join([*(file.read_bytes() for file in files), *map(str.encode, said)])


def _leaks(told: bytes, drawn: list[bytes]) -> list[bytes]:
    return [secret for secret in drawn if any(needle in told for needle in _needles(secret))]


COMBINATIONS: list[tuple[str, Profile]] = [
    ("capture", "default"),
    ("capture", "strict"),
    ("tape", "default"),
    ("tape", "strict"),
]


@pytest.mark.parametrize("container,profile", COMBINATIONS)
def test_no_drawn_secret_is_in_any_file_or_message(
    container: str, profile: Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    place: dict[str, Any] = {container: tmp_path / "recording", "warn": said.append}
    with reenact.session(mode="record", redaction=profile, **place):
        made = _program()
    with reenact.session(mode="replay", strict=True, into=tmp_path / "again", **place):
        again = _program()
    assert (again == made) is (container == "capture")
    captured = capfd.readouterr()
    told = _told(tmp_path, [*said, captured.out, captured.err])
    assert _leaks(told, [*made, *again]) == []
    assert b"REDACTED" in told
    reenact.verify(tmp_path / "recording")


def test_the_search_would_find_what_is_written(tmp_path: Path) -> None:
    """The other tests would pass if the search were blind."""
    with reenact.session(mode="record", redaction="none", tape=tmp_path / "t"):
        made = _program()
    assert _leaks(_told(tmp_path, []), made) == made
    assert not any(a == b for a, b in combinations(made, 2))


def test_no_drawn_secret_is_in_a_divergence(tmp_path: Path) -> None:
    said: list[str] = []
    with reenact.session(mode="record", capture=tmp_path / "c"):
        made = [os.urandom(SIZE), os.urandom(SIZE), os.urandom(SIZE)]
    for strict in (True, False):
        session = reenact.session(
            mode="replay", capture=tmp_path / "c", strict=strict, unused="warn", warn=said.append
        )
        try:
            with session:
                made.append(os.urandom(SIZE))
                made.append(os.urandom(SIZE + 1))
        except DivergenceError as error:
            said += [str(error), repr(error), str(error.to_json())]
        said += [str(one) for one in session.divergences()]
        said.append(str(session.report().to_json()))
    assert len(said) > 4
    assert _leaks(_told(tmp_path, said), made) == []


def test_a_small_secret_cannot_be_told_by_its_digest(tmp_path: Path) -> None:
    """There are only 256 of them: the digest of each can be looked up."""
    with reenact.session(mode="record", capture=tmp_path / "a"):
        os.urandom(1)
    with reenact.open_recording(tmp_path / "a") as source:
        [event] = source
    digests = {
        digest_bytes(canonical(wrapped))
        for number in range(256)
        for value in (bytes([number]), f"{number:02x}", {"drawnSecret": f"{number:02x}"}, number)
        for wrapped in (value, [value], [[value]])
    }
    assert event.data["valueHash"] not in digests
    assert event.data["value"] == {"drawnSecret": "***REDACTED***"}
