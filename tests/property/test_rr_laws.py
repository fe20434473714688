"""Laws of the low-level API: a cassette against the simplest model of one."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import rr
from reenact.errors import RrError
from reenact.rr.config import read_cfg
from reenact.rr.entries import key_text, read

KINDS = st.sampled_from(["rr", "http"])
OPS = st.sampled_from(["get", "put", ""])
KEYS = st.sampled_from([b"", b"a", b"b", b"\xff", b"bytes:a"])
ASKS = st.tuples(KINDS, OPS, KEYS)
ENTRIES = st.builds(
    rr.Entry,
    kind=KINDS,
    op=OPS,
    key=KEYS,
    req=st.binary(max_size=6),
    resp=st.one_of(st.binary(max_size=6), st.just(b"long" * 20_000)),
    err=st.integers(-(2**31), 2**32 - 1),
    latency_ticks=st.none() | st.integers(0, 2**32 - 1),
)
CASSETTES = st.lists(ENTRIES, max_size=8)

_fresh = count()


@pytest.fixture(scope="module", autouse=True)
def _root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REENACT_ROOT", str(tmp_path_factory.mktemp("rr")))
        patch.delenv("CI", raising=False)
        yield


def _written(entries: list[rr.Entry]) -> str:
    path = f"cassette-{next(_fresh)}"
    with rr.scope({"path": path, "mode": "record"}) as handle:
        for entry in entries:
            rr.append(handle, entry)
    return path


def _stats(handle: int) -> dict[str, int]:
    found: dict[str, int] = json.loads(rr.stats(handle))
    return found


def _contents(path: str) -> list[rr.Entry]:
    """Everything in the order of the file, which is read here without the API."""
    tape = os.path.join(os.environ["REENACT_ROOT"], ".reenact", "cassettes", f"{path}.jsonl")
    with open(tape, encoding="utf-8") as file:
        names = [json.loads(line)["data"] for line in file if line.startswith('{"ts"')]
    with rr.scope({"path": path, "match_mode": "transcript"}) as handle:
        return [rr.next(handle, one["source"], one["op"], b"") for one in names]


@contextmanager
def _number(expected: int) -> Iterator[None]:
    with pytest.raises(RrError) as caught:
        yield
    assert caught.value.number == expected


def _refusal(act: Callable[..., Any], *arguments: Any) -> int | None:
    """The number of the error that ``act`` raises, None when it raises none."""
    try:
        act(*arguments)
    except RrError as error:
        return error.number
    return None


class Lookup:
    """The earliest unused entry with the same kind, op and key."""

    def __init__(self, entries: list[rr.Entry]) -> None:
        self.unused = list(entries)

    def next(self, kind: str, op: str, key: bytes) -> rr.Entry | int:
        for place, entry in enumerate(self.unused):
            if (entry.kind, entry.op, entry.key) == (kind, op, key):
                return self.unused.pop(place)
        return rr.MISS


class Transcript(Lookup):
    """The next entry, if it is the one."""

    def next(self, kind: str, op: str, key: bytes) -> rr.Entry | int:
        if not self.unused:
            return rr.MISS
        entry = self.unused[0]
        if entry.kind != kind:
            return rr.KIND_MISMATCH
        if entry.op != op:
            return rr.OP_MISMATCH
        if key and entry.key != key:
            return rr.MISS
        return self.unused.pop(0)


MODELS = st.sampled_from([("lookup", Lookup), ("transcript", Transcript)])


def _ask(handle: int, model: Lookup, ask: tuple[str, str, bytes]) -> rr.Entry | int:
    """Ask both, which must agree."""
    expected = model.next(*ask)
    if isinstance(expected, int):
        with _number(expected):
            rr.next(handle, *ask)
    else:
        assert rr.next(handle, *ask) == expected
    return expected


@given(CASSETTES)
def test_what_was_appended_is_what_is_there(entries: list[rr.Entry]) -> None:
    assert _contents(_written(entries)) == entries


@given(st.data(), MODELS, CASSETTES)
def test_a_replay_does_what_its_model_does(
    data: st.DataObject, modelled: tuple[str, type[Lookup]], entries: list[rr.Entry]
) -> None:
    match_mode, made = modelled
    model = made(entries)
    own = st.sampled_from([(one.kind, one.op, one.key) for one in entries]) if entries else ASKS
    with rr.scope({"path": _written(entries), "match_mode": match_mode}) as handle:
        for ask in data.draw(st.lists(st.one_of(own, ASKS), max_size=20)):
            _ask(handle, model, ask)
            assert _stats(handle)["used"] == len(entries) - len(model.unused)


@given(MODELS, CASSETTES, st.lists(ASKS, max_size=12))
def test_record_missing_adds_exactly_what_was_missing(
    modelled: tuple[str, type[Lookup]], entries: list[rr.Entry], asks: list[tuple[str, str, bytes]]
) -> None:
    match_mode, made = modelled
    path = _written(entries)
    model = made(entries)
    added: list[rr.Entry] = []
    in_order: list[rr.Entry] = []
    cfg = {"path": path, "mode": "record_missing", "match_mode": match_mode}
    with rr.scope(cfg) as handle:
        for number, (kind, op, key) in enumerate(asks):
            found = _ask(handle, model, (kind, op, key))
            if found == rr.MISS:
                new = rr.Entry(kind=kind, op=op, key=key, resp=b"live %d" % number)
                rr.append(handle, new)
                added.append(new)
                in_order.append(new)
            elif isinstance(found, rr.Entry):
                in_order.append(found)
        assert _stats(handle)["entries"] == len(entries) + len(added)
    expected = entries + added if match_mode == "lookup" else in_order + model.unused
    assert _contents(path) == expected


@given(CASSETTES, st.integers(0, 4))
def test_what_was_written_within_its_budgets_opens_within_them(
    entries: list[rr.Entry], room: int
) -> None:
    path = f"cassette-{next(_fresh)}"
    limits = {"max_entries": room, "max_resp_bytes": 80_000, "max_key_bytes": 2}
    kept: list[rr.Entry] = []
    with rr.scope({"path": path, "mode": "record", **limits}) as handle:
        for entry in entries:
            number = _refusal(rr.append, handle, entry)
            if number is None:
                kept.append(entry)
            else:
                assert number == (rr.OVER_KEY_BYTES if len(entry.key) > 2 else rr.OVER_ENTRIES)
        size = _stats(handle)["bytes"]
    assert len(kept) <= room
    with rr.scope({"path": path, **limits, "max_cassette_bytes": size}) as handle:
        assert _stats(handle)["entries"] == len(kept)
        assert _stats(handle)["bytes"] == size
    if kept:
        with _number(rr.OVER_CASSETTE_BYTES):
            rr.open({"path": path, "max_cassette_bytes": size - 1})


@given(st.one_of(st.binary(), st.text().map(lambda text: f"bytes:{text}".encode())))
def test_a_key_survives_whatever_it_is(key: bytes) -> None:
    data = {"source": "rr", "key": key_text(key), "response": ""}
    assert read(data, "here").key == key


@given(st.binary(max_size=60), st.integers(0, 60), st.binary(max_size=4))
def test_a_broken_cfg_document_is_refused_and_never_crashes(
    path: bytes, place: int, noise: bytes
) -> None:
    head = struct.pack("<4sHHBBHQ5I", b"X7RC", 1, 0, 2, 0, 0, 1, 2, 3, 4, 5, len(path))
    document = (head + path)[:place] + noise + (head + path)[place + len(noise) :]
    number = _refusal(read_cfg, document)
    assert number in (None, rr.CFG_INVALID, rr.CFG_VERSION)
    if number is None:
        assert read_cfg(document).path.encode() == document[40:]
