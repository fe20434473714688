from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reenact.errors import RecordingDamaged
from reenact.format.canonical import decode, exact
from reenact.format.event import Draft
from reenact.policy.redaction.redactor import Redactor
from reenact.store.blobs import Blobs
from reenact.store.payload_decoder import PayloadDecoder, blob_references, is_delta
from reenact.store.payload_encoder import PayloadEncoder
from reenact.store.reader import open_recording
from reenact.store.sinks.base import Options
from reenact.store.verify import verify
from tests.unit.store.samples import PLAIN, datas, draft, raw_lines, read_manifest, record


class Shallow(PayloadEncoder):
    DEEPEST = 4


class Desk:
    """A packer and the reader of what it packs."""

    def __init__(
        self, folder: Path, kind: type[PayloadEncoder] = PayloadEncoder, **options: Any
    ) -> None:
        self.blobs = Blobs(folder)
        self.packer = kind(self.blobs, **options)
        self.stored: dict[int, bytes] = {}

    def add(self, data: dict[str, Any], *, op: str = "chat", **fields: Any) -> bytes:
        payload = exact(data)
        seq = len(self.stored) + 1
        one = Draft(**{"type": "x_request", "ts": 0, **fields}, data=data, op=op)
        digest = hashlib.sha256(payload).digest()
        self.stored[seq] = self.packer.pack(seq, one, payload, digest)
        return self.stored[seq]

    def read(self, seq: int) -> bytes:
        return PayloadDecoder(self.blobs, self.stored.__getitem__).whole(seq, self.stored[seq])

    def depth(self, seq: int) -> int:
        if not is_delta(self.stored[seq]):
            return 0
        bases = msgspec.json.decode(self.stored[seq])["$delta"]["of"]
        return 1 + max(self.depth(abs(base)) for base in bases if base)


LONG = "a sentence that is long enough to be worth repeating; " * 20


def noise(seed: int, size: int = 800) -> dict[str, Any]:
    return {"noise": random.Random(seed).randbytes(size).hex()}


def test_a_repeated_payload_is_stored_as_what_changed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.add({"text": LONG, "n": 1}) == exact({"text": LONG, "n": 1})
    second = desk.add({"text": LONG, "n": 2})
    assert is_delta(second)
    assert len(second) < 200
    assert msgspec.json.decode(second)["$delta"]["of"] == [1]
    assert desk.read(2) == exact({"text": LONG, "n": 2})
    assert desk.packer.used_deltas


@pytest.mark.parametrize("fields", [{"type": "other"}, {"lane": "0.1"}, {"op": "other"}])
def test_only_the_same_type_lane_and_operation_is_repeated(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    desk = Desk(tmp_path)
    desk.add({"text": LONG})
    assert not is_delta(desk.add({"text": LONG}, **fields))
    assert not desk.packer.used_deltas


def test_small_payloads_and_a_packer_without_deltas_store_whole(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for _ in range(3):
        assert desk.add({"text": "short"}) == b'{"text":"short"}'
    plain = Desk(tmp_path, deltas=False)
    for _ in range(3):
        assert plain.add({"text": LONG}) == exact({"text": LONG})


@pytest.mark.parametrize(
    "kind, size, kept",
    [
        ("llm_response", 800, True),
        ("nondeterministic", 800, False),
        ("llm_request", 800, False),
        ("llm_request", 1600, True),
        ("nondeterministic", 1600, False),
    ],
)
def test_of_a_conversation_less_is_worth_a_delta(
    tmp_path: Path, kind: str, size: int, kept: bool
) -> None:
    """A model's answer is mostly new; what is around it is what it was. So is the end of a long
    question; a short one is no conversation yet."""
    desk = Desk(tmp_path)
    for seed in (1, 2):
        desk.add({"frame": LONG, **noise(seed, size)}, type=kind)
    assert is_delta(desk.stored[2]) is kept
    assert desk.read(2) == exact({"frame": LONG, **noise(2, size)})


def test_an_answer_is_one_copy_in_the_next_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    spoken = "".join(f'Line {n} of "{n * 7919 % 1000}"\n' for n in range(60))
    messages: list[dict[str, str]] = [{"role": "user", "content": LONG}]
    for turn in range(2):
        known = {"provider": "p", "model": "m", "inputHash": f"sha256:{turn:064}"}
        desk.add({**known, "request": {"messages": messages}}, type="llm_request")
        body = json.dumps({"id": turn, "choices": [{"content": spoken + str(turn)}]})
        ended = {"stopReason": "stop", "usage": {"input": turn, "output": 12345}}
        answer = {"provider": "p", "model": "m", **ended, "response": {"body": body}}
        desk.add(answer, type="llm_response")
        messages = [*messages, {"role": "assistant", "content": spoken + str(turn)}]
    stored = desk.stored[3]
    assert is_delta(stored)
    assert len(stored) < 400
    assert stored.count(f"sha256:{1:064}".encode()) == 1
    assert decode(desk.read(3))["request"]["messages"][1]["content"] == spoken + "0"


@pytest.mark.parametrize("digits", [0, 15])
def test_a_delta_that_says_too_little_of_its_result_is_refused(tmp_path: Path, digits: int) -> None:
    whole = f"sha256:{hashlib.sha256(b'{}').hexdigest()}"
    wrong = delta([1], ["{}"], digest=whole[: 7 + digits])
    with pytest.raises(RecordingDamaged, match="does not rebuild"):
        PayloadDecoder(Blobs(tmp_path), {1: b"{}"}.__getitem__).whole(2, wrong)


def test_a_secret_in_the_key_does_not_reach_the_disk_by_way_of_a_delta(tmp_path: Path) -> None:
    secret = "hunter" + "2" * 20
    drafts = [
        draft(
            "nondeterministic",
            {"source": "network", "key": f"GET {secret}", "valueHash": "h", "value": f"{LONG} {n}"},
            op="get",
        )
        for n in range(4)
    ]
    options = Options(redactor=Redactor("default", declared=[secret]), durability="none")
    path = record(tmp_path / "c", drafts, options)
    verify(path)
    assert any(b"$delta" in line for line in raw_lines(path))
    assert secret.encode() not in (path / "events.jsonl").read_bytes()
    assert {data["key"] for data in datas(path)} == {"GET ***REDACTED***"}


def test_a_chain_is_never_deeper_than_the_limit(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Shallow)
    for turn in range(20):
        desk.add({"text": LONG, "turn": turn})
    depths = [desk.depth(seq) for seq in desk.stored]
    assert max(depths) == Shallow.DEEPEST
    assert depths == [0, 1, 2, 3, 4] * 4
    assert desk.read(20) == exact({"text": LONG, "turn": 19})


@pytest.mark.parametrize("lanes", [1, 17, 60])
def test_read_in_order_nothing_is_rebuilt_twice_however_many_lanes_there_are(
    lanes: int, tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    for turn in range(12):
        for lane in range(lanes):
            desk.add({"text": LONG, "turn": turn}, lane=f"0.{lane}")
    fetched: list[int] = []

    def fetch(seq: int) -> bytes:
        fetched.append(seq)
        return desk.stored[seq]

    resolver = PayloadDecoder(desk.blobs, fetch)
    for seq, data in desk.stored.items():
        assert decode(resolver.whole(seq, data))["turn"] == (seq - 1) // lanes
    # A payload that is stored whole is looked for when the first delta is made of it.
    assert sorted(fetched) == [*range(1, lanes + 1)]


def test_of_long_payloads_only_a_few_are_remembered(tmp_path: Path) -> None:
    class Forgetful(PayloadDecoder):
        REMEMBERED_BYTES = 10_000

    desk = Desk(tmp_path)
    for turn in range(100):
        desk.add({"text": LONG, "turn": turn})
    fetched: list[int] = []

    def fetch(seq: int) -> bytes:
        fetched.append(seq)
        return desk.stored[seq]

    resolver = Forgetful(desk.blobs, fetch)
    for seq, data in desk.stored.items():
        resolver.whole(seq, data)
    fetched.clear()
    resolver.whole(100 - Forgetful.REMEMBERED + 1, desk.stored[100 - Forgetful.REMEMBERED + 1])
    assert fetched == []
    resolver.whole(20, desk.stored[20])
    assert len(fetched) == 19


def test_a_side_does_not_make_a_chain_deeper_than_the_limit(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Shallow)
    for turn in range(30):
        for kind in ("x_request", "x_response", "x_third"):
            desk.add({"text": LONG, "kind": kind, "turn": turn}, type=kind)
    assert max(desk.depth(seq) for seq in desk.stored) == Shallow.DEEPEST
    for seq in (90, 47, 3):
        assert decode(desk.read(seq))["turn"] == (seq - 1) // 3


def test_a_real_chain_ends_at_a_thousand_and_its_end_can_be_read(tmp_path: Path) -> None:
    drafts = [draft(data={"text": LONG, "n": n}, op="chat") for n in range(2_100)]
    path = record(tmp_path / "c", drafts)
    whole = [seq for seq, line in enumerate(raw_lines(path), 1) if b'"data":{"$delta":' not in line]
    assert whole == [1, 1_002, 2_003]
    with open_recording(path) as source:
        for seq in (2_100, 1_001, 1_002, 2_002, 1):
            assert source.at(seq).data == drafts[seq - 1].data


def test_what_never_repeats_is_tried_ever_less_often(tmp_path: Path) -> None:
    """Each miss doubles how many payloads are left alone; a repetition among them is not seen."""
    desk = Desk(tmp_path)
    desk.add(noise(0))
    assert not is_delta(desk.add(noise(1)))  # a miss: two are left alone
    assert not is_delta(desk.add(noise(1)))
    assert not is_delta(desk.add(noise(1)))
    assert is_delta(desk.add(noise(1)))


def test_a_hit_forgets_the_misses(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for seed in range(40):
        desk.add(noise(seed))
    skipped = 0
    while not is_delta(desk.add(noise(99))):
        skipped += 1
    assert 0 < skipped <= 65
    assert is_delta(desk.add(noise(99)))
    assert is_delta(desk.add(noise(99)))


def test_forgetting_refers_to_nothing_earlier(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add({"text": LONG})
    desk.packer.forget()
    assert not is_delta(desk.add({"text": LONG}))
    assert is_delta(desk.add({"text": LONG}))


def test_what_is_kept_for_comparison_is_bounded(tmp_path: Path) -> None:
    class Forgetful(PayloadEncoder):
        KEPT_BYTES = 5_000

    desk = Desk(tmp_path, Forgetful)
    for number in range(10):
        desk.add({"text": LONG}, op=f"op {number}")
    assert is_delta(desk.add({"text": LONG}, op="op 9"))
    assert not is_delta(desk.add({"text": LONG}, op="op 0"))


@pytest.mark.parametrize(
    "value, kind",
    [("é" * 600, "text"), (b"\xff" * 600, "bytes"), ([{"n": n} for n in range(200)], "json")],
)
def test_a_large_value_becomes_a_blob_of_its_kind(tmp_path: Path, value: Any, kind: str) -> None:
    desk = Desk(tmp_path, threshold=1_000, deltas=False)
    packed = decode(desk.add({"small": 1, "large": value}))
    raw = {"text": str.encode, "bytes": bytes, "json": exact}[kind](value)  # type: ignore[operator]
    if kind == "bytes":
        desk = Desk(tmp_path, threshold=500, deltas=False)
        packed = decode(desk.add({"small": 1, "large": value}))
    assert packed["small"] == 1
    assert packed["large"] == {
        "$blob": f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "kind": kind,
        "size": len(raw),
    }
    assert desk.read(1) == exact({"small": 1, "large": value})


def test_the_threshold_itself_stands_inline(tmp_path: Path) -> None:
    path = record(
        tmp_path / "c",
        [draft(data={"at": "x" * 600, "above": "y" * 601})],
        replace(PLAIN, blob_threshold=600),
    )
    data = decode(raw_lines(path)[0])["data"]
    assert data["at"] == "x" * 600
    assert data["above"]["size"] == 601


def test_a_blob_is_stored_once(tmp_path: Path) -> None:
    drafts = [draft(data={"text": "x" * 2_000, "n": n}) for n in range(5)]
    path = record(tmp_path / "c", drafts, replace(PLAIN, blob_threshold=1_000, deltas=False))
    assert read_manifest(path).blobs.count == 1
    assert datas(path) == [one.data for one in drafts]


def test_a_tiny_threshold_is_obeyed_by_small_payloads_too(tmp_path: Path) -> None:
    path = record(tmp_path / "c", [draft(data={"a": "12345"})], replace(PLAIN, blob_threshold=4))
    assert b"12345" not in (path / "events.jsonl").read_bytes()
    verify(path)
    assert datas(path) == [{"a": "12345"}]


def test_recorded_objects_that_look_like_ours_survive_blobs_and_deltas(tmp_path: Path) -> None:
    fake = {
        "$blob": "sha256:" + "0" * 64,
        "kind": "text",
        "size": 3,
        "$a": 1,
        "text": "$blob " * 400,
    }
    told = [
        {"$delta": {"of": [1], "ops": [], "digest": ""}, "x": fake, "$bytes": "no", "n": n}
        for n in range(3)
    ]
    for name, threshold, deltas in (("a", 100, False), ("b", 10**6, True), ("c", 500, True)):
        options = replace(PLAIN, blob_threshold=threshold, deltas=deltas)
        path = record(tmp_path / name, [draft(data=data, op="x") for data in told], options)
        verify(path)
        assert datas(path) == told


def test_references_are_found_inside_json_blobs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, threshold=300, deltas=False)
    value = [[f"{n}" * 400, "tail"] for n in range(8)]
    packed = desk.add({"large": value})
    found = blob_references(packed, desk.blobs)
    assert sorted(found.values())[:8] == [400] * 8
    assert len(found) > 8
    assert {desk.blobs.path(digest) for digest in found} == set(desk.blobs.files())


# What a resolver refuses


def delta(of: list[Any], ops: list[Any], digest: str | None = None, result: bytes = b"") -> bytes:
    digest = digest or f"sha256:{hashlib.sha256(result).hexdigest()}"
    return exact({"d": {"digest": digest, "of": of, "ops": ops}}).replace(b'"d"', b'"$delta"')


@pytest.mark.parametrize(
    "stored, reason",
    [
        (delta([2], []), "refers to event 2"),
        (delta([3], []), "refers to event 3"),
        (delta([-2], []), "refers to event 2"),
        (delta([-1], []), "event 1 has no text response.body"),
        (delta([0], [[0, 3]]), "copies 0+3 of 2 bytes"),
        (delta([1], [5, 3]), "copies 5+3 of 7 bytes"),
        (delta([1], [[3, "a"]]), "escapes a text 3 times"),
        (delta([1], [[True, "a"]]), "escapes a text True times"),
        (delta([1], [[0, 99]]), "copies 0+99 of 7 bytes"),
        (delta([1], [[0, 7]], digest="sha256:0"), "does not rebuild"),
        (delta([1], [{"a": 1}]), "neither text nor"),
        (delta(["1"], []), "Expected `int`"),
        (b'{"$delta":{}}', "missing required field"),
        (b'{"$delta":', "truncated"),
        (b'{"a":{"$blob":"sha256:0","kind":"text"}}', "is not a digest"),
        (b'{"a":{"$blob":"../../etc/passwd","kind":"text"}}', "is not a digest"),
    ],
)
def test_a_reference_that_leads_nowhere_is_damage(
    tmp_path: Path, stored: bytes, reason: str
) -> None:
    resolver = PayloadDecoder(Blobs(tmp_path), {1: b'{"a":1}', 2: stored}.__getitem__)
    with pytest.raises(RecordingDamaged) as caught:
        resolver.whole(2, stored)
    assert reason in caught.value.message


def test_a_blob_of_an_unknown_kind_is_damage(tmp_path: Path) -> None:
    digest, _ = Blobs(tmp_path).put(b"content")
    stored = b'{"a":{"$blob":"%b","kind":"video"}}' % digest.encode()
    with pytest.raises(RecordingDamaged, match="unknown kind 'video'"):
        PayloadDecoder(Blobs(tmp_path), {1: stored}.__getitem__).whole(1, stored)
