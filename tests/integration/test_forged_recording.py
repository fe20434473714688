"""Recordings whose hashes are right and whose lines are not: made by hand, or by an enemy.

The reader meets every one of them with :class:`RecordingDamaged`, in bounded time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact import open_recording, verify
from reenact.errors import RecordingDamaged, RecordingError
from reenact.format.canonical import digest, digest_bytes
from reenact.store.log import Tally
from reenact.store.pack import pack
from reenact.store.recover import recover
from tests.clocks import start_clock
from tests.integration.small import write_small

DIGEST = "sha256:" + "0" * 64


def _forge(folder: Path, data: bytes, *, blob: bytes = b"", **envelope: Any) -> Path:
    """A capture of two events whose second line is ``data``; every hash fits."""
    path = folder / "capture"
    manifest: dict[str, Any] = write_small(path).to_json()
    first = (path / "events.jsonl").read_bytes().splitlines(keepends=True)[0]
    head = {**json.loads(first), "seq": 2, **envelope}
    head.pop("data")
    encoded = json.dumps(head, separators=(",", ":")).encode()
    second = data if data.endswith(b"\n") else encoded[:-1] + b',"data":' + data + b"}\n"
    _write(path, manifest, [first, second], blob)
    return path


def _write(path: Path, manifest: dict[str, Any], lines: list[bytes], blob: bytes) -> None:
    for file in (path / "blobs").rglob("*"):
        if file.is_file():
            file.unlink()
    if blob:
        name = digest_bytes(blob).removeprefix("sha256:")
        (path / "blobs" / name[:2]).mkdir(exist_ok=True)
        (path / "blobs" / name[:2] / name).write_bytes(blob)
    tally = Tally()
    for line in lines:
        tally.add(line)
    (path / "events.jsonl").write_bytes(b"".join(lines))
    manifest["eventCount"] = len(lines)
    manifest["lanes"] = 1
    manifest["blobs"] = {"count": 1 if blob else 0, "bytes": len(blob)}
    points = tally.checkpoints()
    manifest["integrity"]["eventsHash"] = tally.digest()
    manifest["integrity"]["checkpoints"] = {"every": points.every, "hashes": points.hashes}
    without = {k: v for k, v in manifest["integrity"].items() if k != "manifestHash"}
    manifest["integrity"]["manifestHash"] = digest({**manifest, "integrity": without})
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _delta(**fields: Any) -> bytes:
    whole = {"digest": DIGEST, "of": [1], "ops": [[0, 5]], **fields}
    return b'{"$delta":' + json.dumps(whole).encode() + b"}"


def _blob(**fields: Any) -> bytes:
    return json.dumps({"a": {"$blob": DIGEST, "kind": "text", "size": 3, **fields}}).encode()


TEXT = b"caf\xc3\xa9"
BROKEN = b"caf\xe9\xff"
OWN = {"$blob": digest_bytes(BROKEN), "size": len(BROKEN)}

LINES: dict[str, bytes] = {
    "not JSON": b"nothing\n",
    "an empty line": b"\n",
    "an array": b"[1]\n",
    "a null": b"null\n",
    "no fields": b"{}\n",
    "not UTF-8": b'{"\xff":1}\n',
    "deep brackets": b"[" * 100_000 + b"\n",
    "an endless line": b'"' + b"a" * 1_000_000 + b"\n",
}
DATA: dict[str, bytes] = {
    "data is a list": b"[1]",
    "data is a number": b"1",
    "data is null": b"null",
    "nested 201 deep": b'{"a":' * 201 + b"1" + b"}" * 201,
    "nested 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a doubled key": b'{"a":1,"a":2}',
    "a doubled key, escaped": b'{"a":1,"\\u0061":2}',
    "a doubled key after many": b"{"
    + b",".join(b'"k%d":1' % n for n in range(60_000))
    + b',"k59999":2}',
    "an unknown constant": b'{"a":NaN}',
    "a number beyond floats": b'{"a":1e999}',
    "an integer of 5,000 digits": b'{"a":' + b"9" * 5_000 + b"}",
    "half a surrogate pair": b'{"a":"\\ud800"}',
    "a control character": b'{"a":"\x01"}',
    "bytes that are a number": b'{"a":{"$bytes":5}}',
    "bytes that are no base64": b'{"a":{"$bytes":"!"}}',
    "a blob that is a number": b'{"a":{"$blob":5,"kind":"text","size":1}}',
    "a blob that is a path": _blob(**{"$blob": "sha256:../../../../etc/passwd"}),
    "a blob that is not there": _blob(),
    "a blob without a kind": b'{"a":{"$blob":"' + DIGEST.encode() + b'"}}',
    "a delta that is null": b'{"$delta":null}',
    "a delta that is a list": b'{"$delta":[]}',
    "a delta of itself": _delta(of=[2]),
    "a delta of the future": _delta(of=[3]),
    "a delta of nothing": _delta(of=[]),
    "a delta of event 0": _delta(of=[0]),
    "a delta of event -1": _delta(of=[-1]),
    "a delta of an endless number": b'{"$delta":{"digest":"x","of":[1e400],"ops":[]}}',
    "a delta of another digest": _delta(),
    "a delta that copies too much": _delta(ops=[[0, 10**9]]),
    "a delta that copies backwards": _delta(ops=[[-5, 5]]),
    "a delta that copies text": _delta(ops=[["0", "5"]]),
    "a delta of odd operations": _delta(ops=[None, True, {}]),
    "a delta with half a surrogate pair": _delta(ops=["\ud800"]),
    "a minimum field is missing": b'{"name":"f","args":1}',
    "a minimum field has another type": b'{"name":5,"args":1,"callId":"c"}',
}
ALL = LINES | DATA
BLOBS: dict[str, bytes] = {
    "a text blob that is not UTF-8": json.dumps({"a": {**OWN, "kind": "text"}}).encode(),
    "a JSON blob that is not JSON": json.dumps({"a": {**OWN, "kind": "json"}}).encode(),
    "a blob of an unknown kind": json.dumps({"a": {**OWN, "kind": "video"}}).encode(),
    "a blob of another size": json.dumps({"a": {**OWN, "kind": "bytes", "size": 99}}).encode(),
    "a size that is text": json.dumps({"a": {**OWN, "kind": "bytes", "size": "x"}}).encode(),
    "a size that is null": json.dumps({"a": {**OWN, "kind": "bytes", "size": None}}).encode(),
}
ENVELOPES: dict[str, dict[str, Any]] = {
    "seq 3": {"seq": 3},
    "seq of 5,000 digits": {"seq": 10**4_000},
    "seq 2.5": {"seq": 2.5},
    "version 2": {"version": 2},
    "a lane that is none": {"lane": "x"},
    "a lane of 5,000 digits": {"lane": "9" * 5_000},
    "an empty lane": {"lane": ""},
    "a parent that does not exist": {"parent": 0},
    "a parent that comes later": {"parent": 2},
    "another capture": {"captureId": "cap_other"},
    "another run": {"runId": "run_other"},
    "a type that is a number": {"type": 5},
    "a time that is text": {"ts": "now"},
}
GOOD = b'{"name":"f","args":1,"callId":"c"}'


def _check(path: Path) -> None:
    with pytest.raises(RecordingDamaged) as error:
        verify(path)
    assert type(error.value) is RecordingDamaged
    assert error.value.place
    assert len(str(error.value)) < 10_000
    try:
        with open_recording(path) as source:
            for event in source:
                assert isinstance(event.data, dict)
    except RecordingError:
        pass
    with pytest.raises(RecordingDamaged):
        pack(path, path.with_name("packed"))
    assert not path.with_name("packed").exists()


@pytest.mark.parametrize("what", ALL)
def test_a_line_that_no_writer_writes_is_damage(what: str, memory_path: Path) -> None:
    _check(_forge(memory_path, ALL[what]))


@pytest.mark.parametrize("what", BLOBS)
def test_a_blob_that_no_writer_writes_is_damage(what: str, memory_path: Path) -> None:
    _check(_forge(memory_path, BLOBS[what], blob=BROKEN))


@pytest.mark.parametrize("what", ENVELOPES)
def test_an_envelope_that_no_writer_writes_is_damage(what: str, memory_path: Path) -> None:
    _check(_forge(memory_path, GOOD, **ENVELOPES[what]))


@pytest.mark.parametrize("what", ALL)
def test_recovering_such_a_line_is_refused_and_cutting_it_works(
    what: str, memory_path: Path
) -> None:
    path = _forge(memory_path, ALL[what])
    (path / "manifest.json").unlink()
    with pytest.raises(RecordingDamaged):
        recover(path, start_clock())
    report = recover(path, start_clock(), cut_damage=True)
    assert report.manifest.event_count == 1
    assert verify(path).manifest == report.manifest


def test_another_model_beside_a_delta_is_damage(tmp_path: Path) -> None:
    """Tools that resolve no deltas would read it."""
    path = tmp_path / "capture"
    manifest: dict[str, Any] = write_small(path).to_json()
    first = (path / "events.jsonl").read_bytes().splitlines(keepends=True)[0]
    payload = json.dumps(json.loads(first)["data"], separators=(",", ":"), ensure_ascii=False)
    rebuilds = {"digest": digest_bytes(payload.encode()), "of": [1], "ops": [payload]}
    name = next(iter(json.loads(payload)))
    for shown, damaged in ((json.loads(payload)[name], False), ("another", True)):
        head = {**json.loads(first), "seq": 2, "data": {"$delta": rebuilds, name: shown}}
        second = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        _write(path, manifest, [first, second], b"")
        with pytest.raises(RecordingDamaged) as caught:
            verify(path)
        assert (f"$.data.{name}" in str(caught.value)) is damaged
