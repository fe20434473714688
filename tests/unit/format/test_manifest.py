from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.errors import RecordingDamaged, RecordingOutdated, RecordingTooNew
from reenact.format.canonical import digest
from reenact.format.manifest import (
    BlobTotals,
    Checkpoints,
    Flag,
    Integrity,
    Manifest,
    Origin,
    PolicyRef,
    Seed,
    check_version,
    parse,
)
from tests.unit.store.samples import NOW, make_seed

PLACE = "manifest.json"


def close(seed: Seed | None = None, **changes: Any) -> Manifest:
    final: dict[str, Any] = {
        "event_count": 2,
        "lanes": 1,
        "integrity": Integrity("sha256", "sha256:e", "sha256:c", Checkpoints(1, "aa bb")),
        "blobs": BlobTotals(0, 0),
        "status": "ok",
        "completed_at": NOW + 5,
    }
    return Manifest.close(seed or make_seed(), **{**final, **changes})


def sealed_by_itself(raw: dict[str, Any]) -> dict[str, Any]:
    """``raw`` with its own hash made to fit, as a writer of another version would."""
    integrity = {name: item for name, item in raw["integrity"].items() if name != "manifestHash"}
    own = digest({**raw, "integrity": integrity})
    return {**raw, "integrity": {**integrity, "manifestHash": own}}


def test_a_manifest_has_the_fields_of_the_source_document_and_ours() -> None:
    seed = make_seed(policy=PolicyRef("p", "sha256:p"), parent=Origin("cap_0", 4))
    raw = close(seed, flags=[1], error="why", status="error", sealed={"keyId": "k"}).to_json()
    own = raw["integrity"].pop("manifestHash")
    assert own.startswith("sha256:")
    assert raw == {
        "version": 1,
        "format": {"name": "reenact", "version": "1.0"},
        "captureId": "cap_1",
        "runId": "run_1",
        "createdAt": NOW,
        "completedAt": NOW + 5,
        "mode": "capture",
        "model": {"provider": "example", "model": "m-1"},
        "eventCount": 2,
        "eventLogPath": "events.jsonl",
        "redaction": {"enabled": False, "profile": "none"},
        "environment": {"python": "3.11.0"},
        "policy": {"id": "p", "digest": "sha256:p"},
        "parent": {"captureId": "cap_0", "seq": 4},
        "lanes": 1,
        "integrity": {
            "algorithm": "sha256",
            "eventsHash": "sha256:e",
            "contentHash": "sha256:c",
            "checkpoints": {"every": 1, "hashes": "aa bb"},
        },
        "blobs": {"count": 0, "bytes": 0},
        "status": "error",
        "error": "why",
        "flags": [1],
        "sealed": {"keyId": "k"},
    }


def test_a_manifest_comes_back_from_its_json() -> None:
    manifest = close(make_seed(extra={"later": {"a": [1]}}))
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json())), place=PLACE) == manifest


def test_its_own_hash_covers_every_field() -> None:
    raw = close(make_seed(policy=PolicyRef("p", "d")), flags=[1], error="x").to_json()
    for name in raw:
        if name in ("integrity", "format", "version"):
            continue
        with pytest.raises(RecordingDamaged, match="its own hash does not match") as caught:
            Manifest.from_json({**raw, name: "edited"}, place=PLACE)
        assert caught.value.place == PLACE
    for name in raw["integrity"]:
        edited = {**raw, "integrity": {**raw["integrity"], name: "edited"}}
        with pytest.raises(RecordingDamaged, match="its own hash does not match"):
            Manifest.from_json(edited, place=PLACE)
    with pytest.raises(RecordingDamaged, match="its own hash does not match"):
        Manifest.from_json({**raw, "added": 1}, place=PLACE)


@pytest.mark.parametrize("integrity", [None, [], "x", {}])
def test_a_manifest_without_integrity_is_damaged(integrity: Any) -> None:
    raw = {**close().to_json(), "integrity": integrity}
    with pytest.raises(RecordingDamaged):
        Manifest.from_json(raw, place=PLACE)


def test_fields_of_a_later_minor_version_are_kept() -> None:
    raw = close().to_json()
    raw["format"] = {"name": "reenact", "version": "1.7"}
    raw["mood"] = {"good": True}
    raw["extra"] = 5
    raw = sealed_by_itself(raw)
    manifest = Manifest.from_json(raw, place=PLACE)
    assert manifest.extra == {"mood": {"good": True}, "extra": 5}
    assert manifest.to_json() == raw


def test_a_field_of_another_type_is_named() -> None:
    raw = sealed_by_itself({**close().to_json(), "eventCount": "two"})
    with pytest.raises(RecordingDamaged, match="eventCount"):
        Manifest.from_json(raw, place=PLACE)


def test_an_unknown_flag_means_too_new() -> None:
    raw = sealed_by_itself({**close().to_json(), "flags": [1, 99]})
    with pytest.raises(RecordingTooNew, match=r"flags \[99\]") as caught:
        Manifest.from_json(raw, place=PLACE)
    assert "upgrade" in caught.value.hint


def test_known_flags_are_accepted() -> None:
    flags = sorted(map(int, Flag))
    assert Manifest.from_json(close(flags=flags).to_json(), place=PLACE).flags == flags


@pytest.mark.parametrize("version", ["1.0", "1.9", "1.123"])
def test_every_minor_of_this_major_is_read(version: str) -> None:
    check_version({"format": {"name": "reenact", "version": version}}, PLACE)
    raw = sealed_by_itself({**close().to_json(), "format": {"name": "reenact", "version": version}})
    assert Manifest.from_json(raw, place=PLACE).format.version == version


@pytest.mark.parametrize("version", ["2.0", "10.1"])
def test_a_later_major_is_too_new_and_the_hint_is_to_upgrade(version: str) -> None:
    with pytest.raises(
        RecordingTooNew, match=f"format {version}; this version reads 1.x"
    ) as caught:
        check_version({"format": {"name": "reenact", "version": version}}, PLACE)
    assert "upgrade" in caught.value.hint


def test_an_earlier_major_is_outdated_and_the_hint_is_to_migrate() -> None:
    with pytest.raises(RecordingOutdated, match=r"format 0\.3") as caught:
        check_version({"format": {"name": "reenact", "version": "0.3"}}, PLACE)
    assert caught.value.hint == "reenact migrate OLD NEW"


def test_a_manifest_of_the_source_document_is_outdated() -> None:
    with pytest.raises(RecordingOutdated, match="written before format 1") as caught:
        check_version({"version": 1, "captureId": "c"}, PLACE)
    assert caught.value.hint == "reenact migrate OLD NEW"


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"version": 2, "captureId": "c"},
        {"format": "reenact"},
        {"format": {"name": "other", "version": "1.0"}},
        {"format": {"name": "reenact", "version": "one"}},
        {"format": {"name": "reenact", "version": "1"}},
        {"format": {"name": "reenact", "version": "-1.0"}},
        {"format": {"name": "reenact"}},
    ],
)
def test_what_names_no_format_of_ours_is_damaged(raw: dict[str, Any]) -> None:
    with pytest.raises(RecordingDamaged):
        check_version(raw, PLACE)


def test_the_version_is_checked_before_the_hash() -> None:
    """A later format may hash in another way: its reader must say "too new", not "damaged"."""
    raw = {**close().to_json(), "format": {"name": "reenact", "version": "2.0"}}
    with pytest.raises(RecordingTooNew):
        Manifest.from_json(raw, place=PLACE)


def test_a_seed_keeps_what_a_later_version_knew_at_the_start() -> None:
    raw = {**close().to_json(), "mood": 1}
    seed = Seed.read(raw)
    assert seed.extra == {"mood": 1}
    assert Seed.read(seed.to_json()) == seed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"a":1,"a":2}', b"\xff"])
def test_parse_says_damaged_for_anything_but_an_object(content: bytes) -> None:
    with pytest.raises(RecordingDamaged) as caught:
        parse(content, place=PLACE)
    assert caught.value.place == PLACE
