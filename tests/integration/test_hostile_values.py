"""Values that break other recorders: each comes back exactly, or is refused and nothing is harmed."""

from __future__ import annotations

import copy
import itertools
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from reenact import Draft, Redactor, ValueRefused, open_recording, start_recording, verify
from reenact.format.canonical import digest_bytes
from reenact.store.recording import make_seed
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.clocks import start_clock

pytestmark = pytest.mark.thinned(2)

THRESHOLD = 2_000
BLOB_TEXT = "the text of a blob that exists " * 100
BLOB = digest_bytes(BLOB_TEXT.encode())


def _sink(path: Path, profile: str) -> DirectorySink | TapeSink:
    clock = start_clock()
    redactor = Redactor("none" if profile == "none" else "default")
    options = Options(redactor=redactor, durability="none", blob_threshold=THRESHOLD)
    tape = path.suffix == ".jsonl"
    sink = (TapeSink if tape else DirectorySink)(path, clock=clock, options=options)
    sink.start(make_seed(clock=clock, redactor=redactor, log="tape" if tape else "events.jsonl"))
    return sink


def _draft(value: Any, **envelope: Any) -> Draft:
    data = {"callId": "c", "ok": True, "result": value}
    return Draft(**{"type": "tool_result", "data": data, "ts": 1, "op": "same", **envelope})


def _nested(depth: int, *, wrap: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def _mark(**fields: Any) -> dict[str, Any]:
    return {"$blob": BLOB, "kind": "text", "size": len(BLOB_TEXT), **fields}


class _Level(IntEnum):
    LOW = 1


class _Text(str):
    __slots__ = ()


SURVIVE: dict[str, Any] = {
    "every plane of Unicode": "".join(
        chr(code)
        for plane in range(17)
        for code in range(plane * 0x10000, plane * 0x10000 + 0x10000, 97)
        if not 0xD800 <= code < 0xE000
    ),
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85\u2028\u2029\ufeff\ufffe\uffff",
    "decomposed and composed": ["e\u0301", "\u00e9", {"e\u0301": 1, "\u00e9": 2}],
    "keys in UTF-16 order": {"\ue000": 1, "\U00010000": 2, "\uffff": 3, "a": 4, "": 5},
    "an integer of 100 digits": [10**99 + 7, -(10**99) - 7, 2**53 + 1, 2**63, 2**64, -(2**63) - 1],
    "an integer of 4,300 digits": 10**4_299,
    "all kinds of floats": [
        0.0,
        1.0,
        1e16,
        1e21,
        1e22,
        1.5e300,
        5e-324,
        1e-5,
        1e-7,
        0.1,
        math.pi,
        sys.float_info.max,
    ],
    "whole floats stay floats": [1.0, -1.0, 1e15],
    "a string of 10 MB": "0123456789abcdef" * 655_360,
    "10 MB of zeros": "0" * 10_000_000,
    "5 MB of bytes": bytes(range(256)) * 20_000,
    "a key of 1 MB": {"k" * 1_000_000: 1},
    "20,000 keys": {f"key {n}": n for n in range(20_000)},
    "as deep as it goes": _nested(198),
    "as deep as it goes, objects": _nested(198, wrap=lambda inner: {"a": inner}),
    "empty things": ["", b"", [], {}, None, False, 0, {"": {"": [[]]}}],
    "bytes": [b"", b"\x00", bytes(range(256)), {"a": b"x"}],
    "a reference to a blob that exists": _mark(),
    "a reference to a blob that does not": _mark(**{"$blob": "sha256:" + "0" * 64}),
    "a reference that leads out": _mark(**{"$blob": "sha256:../../../etc/passwd"}),
    "a blob mark with more": {**_mark(), "other": [_mark()]},
    "a large object that looks like a blob": {**_mark(), "filler": "x" * 3 * THRESHOLD},
    "a bytes mark": {"$bytes": "AAAA"},
    "a bytes mark that is none": {"$bytes": "not base64 at all!"},
    "a bytes mark of a number": [{"$bytes": 5}, {"$bytes": None}, {"$bytes": ["a"]}],
    "a delta mark": {"$delta": {"digest": "sha256:" + "0" * 64, "of": [1], "ops": [[0, 9]]}},
    "escaped marks": {"$$blob": 1, "$$$blob": 2, "$blob": 3, "$$bytes": 4, "$$$$delta": 5, "$x": 6},
    "marks as text": '{"$delta":{"of":[1]}} {"$blob":"sha256:' + "0" * 64 + '"}',
    "marks in large text": '{"$blob":"' * THRESHOLD,
    "other dollars": {"$": 1, "$$": 2, "$ref": "#/a", "$schema": "x", "blob": 3, "bytes": 4},
    "lines inside": 'a\n{"seq":2}\n{"closed":{}}\r\n',
    "a placeholder": "***REDACTED*** and ***REDACTED:0123456789ab***",
    "own fields": {"withheld": {"digest": "x"}, "redacted": ["$.a"], "timing": {"a": 1}},
}
CONVERTED: dict[str, tuple[Any, Any]] = {
    "a tuple": ((1, (2, "a")), [1, [2, "a"]]),
    "an ordered dictionary": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "an enumeration": (_Level.LOW, 1),
    "a kind of text": (_Text("a"), "a"),
    "a bytearray": (bytearray(b"ab"), b"ab"),
    "a memory view": (memoryview(b"ab"), b"ab"),
}
_loop: list[Any] = []
_loop.append(_loop)

REFUSED: dict[str, Any] = {
    "not a number": [1, {"a": math.nan}],
    "infinity": {"a": math.inf},
    "minus infinity": {"a": -math.inf},
    "half a surrogate pair": "a\ud800b",
    "half a surrogate pair as key": {"\udfff": 1},
    "an integer of 4,301 digits": 10**4_300,
    "nested 201 deep": _nested(201),
    "nested 201 deep, objects": _nested(201, wrap=lambda inner: {"a": inner}),
    "nested 100,000 deep": _nested(100_000),
    "nested in itself": _loop,
    "a number as key": {1: 2},
    "bytes as key": {b"a": 1},
    "a set": {1, 2},
    "an object": object(),
    "a complex number": 1j,
    "a class": int,
}


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("what", SURVIVE)
def test_a_hostile_value_comes_back_exactly(what: str, name: str, memory_path: Path) -> None:
    profile = "default" if name == "capture" else "none"
    value = SURVIVE[what]
    sink = _sink(memory_path / name, profile)
    sink.append(_draft(BLOB_TEXT))
    # Twice, and once changed: the second may be stored as what changed against the first.
    values = [value, value, [value, "and more"] if _depth(value) < 190 else value]
    for each in values:
        before = copy.copy(each)
        assert sink.append(_draft(each)) > 0
        assert each == before, "the program's own value was changed"
    sink.finalize()
    verify(memory_path / name)
    with open_recording(memory_path / name) as source:
        found = [event.data["result"] for event in source][1:]
    assert found == values
    assert list(map(_types, found)) == list(map(_types, values))


def _types(value: Any) -> Any:
    """The shape of a value: 1, 1.0 and True are equal, and not the same."""
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_types(item) for item in value]
    return type(value)


def _depth(value: Any) -> int:
    deep = 0
    while isinstance(value, (list, dict)) and value:
        value = next(iter(value.values() if isinstance(value, dict) else value))
        deep += 1
    return deep


@pytest.mark.parametrize("what", CONVERTED)
def test_a_value_of_a_related_type_comes_back_as_the_plain_one(
    what: str, memory_path: Path
) -> None:
    value, expected = CONVERTED[what]
    sink = _sink(memory_path / "capture", "default")
    sink.append(_draft([value]))
    sink.finalize()
    verify(memory_path / "capture")
    with open_recording(memory_path / "capture") as source:
        assert next(iter(source)).data["result"] == [expected]


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_value_that_json_cannot_hold_is_refused_and_the_recording_stays_good(
    what: str, name: str, memory_path: Path
) -> None:
    sink = _sink(memory_path / name, "default")
    good = ["first " * 400, "second " * 400, "second " * 401]
    seqs = [sink.append(_draft(good[0]))]
    for text in good[1:]:
        with pytest.raises(ValueRefused) as error:
            sink.append(_draft([REFUSED[what], "x" * 5_000]))
        assert error.value.path.startswith("$.result[0]")
        seqs.append(sink.append(_draft(text)))
    assert seqs == [1, 2, 3]
    assert sink.finalize().status == "ok"
    verify(memory_path / name)
    with open_recording(memory_path / name) as source:
        assert [event.data["result"] for event in source] == good


ENVELOPES: dict[str, dict[str, Any]] = {
    "a lane that is none": {"lane": "zero"},
    "an empty lane": {"lane": ""},
    "a lane with a line break": {"lane": "0\n"},
    "a lane of Arabic digits": {"lane": "٣"},
    "a type with half a surrogate pair": {"type": "\ud800"},
    "a parent that does not exist": {"parent": 0},
    "a parent that comes later": {"parent": 99},
    "a negative parent": {"parent": -1},
    "an extra field that is not JSON": {"extra": {"a": math.nan}},
    "an extra field that is an envelope's": {"extra": {"seq": 5}},
}


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("what", ENVELOPES)
def test_an_envelope_that_no_reader_accepts_is_refused_and_the_recording_stays_good(
    what: str, name: str, memory_path: Path
) -> None:
    sink = _sink(memory_path / name, "none")
    good = [f"{number} " + "words " * 600 for number in range(4)]
    sink.append(_draft(good[0]))
    for text in good[1:]:
        with pytest.raises(ValueRefused):
            sink.append(_draft("words " * 700, **ENVELOPES[what]))
        sink.append(_draft(text))
    sink.finalize()
    verify(memory_path / name)
    with open_recording(memory_path / name) as source:
        assert [event.data["result"] for event in source] == good


MINIMUM: dict[str, tuple[str, dict[str, Any]]] = {
    "a missing field": ("tool_call", {"name": "f"}),
    "a field of another type": ("tool_call", {"name": 5, "args": 1, "callId": "c"}),
    "an unknown status": ("run_end", {"status": "fine"}),
}


@pytest.mark.parametrize("what", MINIMUM)
def test_data_without_its_minimum_fields_is_refused(what: str, memory_path: Path) -> None:
    with start_recording(memory_path / "capture", redaction="none", seal=False) as recording:
        recording.add("tool_call", {"name": "f", "args": 1, "callId": "c"})
        with pytest.raises(ValueRefused):
            recording.add(*MINIMUM[what])
    assert verify(memory_path / "capture").manifest.event_count == 1


VOLATILE: dict[str, Any] = {
    "an endless index": ["$[" + "9" * 5_000 + "]"],
    "not a path": ["nothing", "", "$.", "$[", "$['", 5, None, ["$"]],
    "the whole": ["$", "$.volatile", "$.callId.deeper[0]"],
    "not a list": {"a": 1},
    "many": ["$.result" + ".a" * 5_000] * 20,
}


@pytest.mark.parametrize("what", VOLATILE)
def test_a_strange_list_of_volatile_fields_is_harmless(what: str, memory_path: Path) -> None:
    sink = _sink(memory_path / "capture", "none")
    data = {"callId": "c", "ok": True, "result": {"a": 1}, "volatile": VOLATILE[what]}
    for _ in range(2):
        sink.append(Draft(type="tool_result", data=data, ts=1))
    sink.finalize()
    verify(memory_path / "capture")
    with open_recording(memory_path / "capture") as source:
        assert [event.data for event in source] == [data, data]


def test_hostile_values_beside_each_other_do_not_mix(memory_path: Path) -> None:
    sink = _sink(memory_path / "capture", "default")
    written: list[Any] = []
    small = {what: value for what, value in SURVIVE.items() if sys.getsizeof(value) < 100_000}
    for (_, good), (_, bad) in zip(small.items(), itertools.cycle(REFUSED.items()), strict=False):
        with pytest.raises(ValueRefused):
            sink.append(_draft([bad]))
        sink.append(_draft(good))
        written.append(good)
    sink.finalize()
    verify(memory_path / "capture")
    with open_recording(memory_path / "capture") as source:
        assert [event.data["result"] for event in source] == written
