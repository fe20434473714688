"""Sessions in a folder whose files and messages are searched for secrets."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, Redactor, Session
from reenact.policy.redaction.redactor import Profile
from tests.leak.planted import known_value
from tests.leak.search import Planted, decoded, leaks


class Room:
    """A folder for recordings; everything that was written or said is kept."""

    def __init__(self, folder: Path, profile: Profile = "default", kind: str = "capture") -> None:
        self.folder = folder
        self.said: list[str] = []
        declared = [known_value("declared", "http").text]
        self._arguments: dict[str, Any] = {
            kind: folder / "recording",
            "root": folder,
            "redaction": Redactor(profile, declared=declared, environ={}),
            "warn": self.said.append,
        }

    def session(self, mode: str, **arguments: Any) -> Session:
        return reenact.session(mode=mode, **{**self._arguments, **arguments})

    def note(self, error: DivergenceError) -> None:
        self.said += [str(error), repr(error), json.dumps(error.to_json())]

    def everything(self) -> bytes:
        """Names, contents, and what is packed in them."""
        parts = ["\n".join(self.said).encode("utf-8", "replace")]
        for file in sorted(self.folder.rglob("*")):
            parts.append(file.name.encode())
            if file.is_file():
                content = file.read_bytes()
                inner = list(decoded(content))
                parts += (content, *inner, *_unpacked([content, *inner]))
        return b"\n".join(parts)

    def leaks(self, planted: list[Planted], capfd: pytest.CaptureFixture[str]) -> list[str]:
        captured = capfd.readouterr()
        return leaks(self.everything() + (captured.out + captured.err).encode(), planted)


def _unpacked(contents: list[bytes]) -> Iterator[bytes]:
    """Whatever in there is gzip or deflate, from any place on."""
    for content in contents:
        for mark, window in ((b"\x1f\x8b\x08", 31), (b"\x78\x9c", 15)):
            start = content.find(mark)
            while start >= 0:
                try:
                    yield zlib.decompressobj(window).decompress(content[start:])
                except zlib.error:
                    pass  # it only looked like it
                start = content.find(mark, start + 1)
        try:
            yield zlib.decompressobj(-15).decompress(content)
        except zlib.error:
            continue
