"""What others do with the same calls: cassettes of vcrpy and of cassetter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import vcr

__all__ = ["has_cassetter", "using_cassetter", "using_vcrpy", "write_vcrpy"]

_ADDRESS = ("method", "scheme", "host", "port", "path", "query")


def write_vcrpy(path: Path, url: str, bodies: Sequence[str], answer: str) -> None:
    """The cassette that vcrpy would record of one request for each of ``bodies``; it would take
    long."""
    response = {
        "status": {"code": 200, "message": "OK"},
        "headers": {"content-type": ["application/json"]},
        "body": {"string": answer},
    }
    asked = {"method": "POST", "uri": url, "headers": {"content-type": ["application/json"]}}
    interactions = [{"request": {**asked, "body": body}, "response": response} for body in bodies]
    path.write_text(json.dumps({"version": 1, "interactions": interactions}), encoding="utf-8")


@contextmanager
def using_vcrpy(path: Path, *, record: bool = False, by_body: bool = True) -> Iterator[None]:
    """vcrpy in force. Unless ``by_body``, its own rules, which look at the address only."""
    recorder = vcr.VCR(
        serializer="json",
        record_mode="once" if record else "none",
        match_on=(*_ADDRESS, "body") if by_body else _ADDRESS,
    )
    with recorder.use_cassette(str(path)):
        yield


def has_cassetter() -> bool:
    """Is it installed? There are not wheels of it for every machine."""
    return find_spec("cassetter") is not None


@contextmanager
def using_cassetter(path: Path, *, record: bool = False) -> Iterator[None]:
    """cassetter in force, matching by method, address and body."""
    cassetter: Any = import_module("cassetter")
    mode = "once" if record else "none"
    with cassetter.use_cassette(path, record_mode=mode, match_on=["method", "uri", "body"]):
        yield
