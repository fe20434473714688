"""Which objects of a store are recordings."""

from __future__ import annotations

from reenact.runs.remote.location import RemoteRecording, is_remote
from reenact.runs.remote.s3 import Object, group_by_recording, version_of

HASH = "0123456789abcdef"


def _grouped(*keys: str) -> dict[str, list[str]]:
    found = group_by_recording(Object(key, 1, "") for key in keys)
    return {key: [one.key for one in some] for key, some in found.items()}


def test_captures_packed_ones_and_tapes() -> None:
    assert _grouped(
        "a/run/manifest.json",
        "a/run/events.jsonl",
        f"a/run/blobs/01/{HASH}",
        "a/run/manifest.sig",
        "a/run/sealed/01.json",
        "a/packed.reenact",
        "a/tape.jsonl",
        "a/tape.jsonl.sig",
        f"a/tape.jsonl.blobs/01/{HASH}",
        "a/notes.txt",
        "a/run2/events.jsonl",
    ) == {
        "a/packed.reenact": ["a/packed.reenact"],
        "a/run": [
            f"a/run/blobs/01/{HASH}",
            "a/run/events.jsonl",
            "a/run/manifest.json",
            "a/run/manifest.sig",
        ],
        "a/run2": ["a/run2/events.jsonl"],
        "a/tape.jsonl": ["a/tape.jsonl", f"a/tape.jsonl.blobs/01/{HASH}", "a/tape.jsonl.sig"],
    }


def test_what_stands_inside_a_recording_is_none() -> None:
    assert _grouped("r/manifest.json", "r/inner/events.jsonl", "r/x.reenact", "r/y.jsonl") == {
        "r": ["r/manifest.json"]
    }
    assert _grouped("manifest.json", "x/manifest.json") == {"": ["manifest.json"]}
    assert _grouped("t.jsonl.sig", f"u.jsonl.blobs/01/{HASH}") == {}, "the tapes are not there"


def test_keys_that_would_lead_elsewhere_are_no_members() -> None:
    bad = ("blobs/../x", "blobs/../../x", "blobs/01/../x", "blobs//x", "../manifest.json")
    assert _grouped("r/manifest.json", *(f"r/{key}" for key in bad)) == {"r": ["r/manifest.json"]}
    assert _grouped("t.jsonl", "t.jsonl.blobs/../x", "t.jsonl.blobs/a/b/../c") == {
        "t.jsonl": ["t.jsonl"]
    }


def test_a_version_is_that_of_all_objects_in_any_order() -> None:
    one, other = Object("a", 1, "x"), Object("b", 2, "y")
    assert version_of([one, other]) == version_of([other, one])
    assert len({version_of([one]), version_of([other]), version_of([one._replace(tag="z")])}) == 3


def test_names() -> None:
    assert [is_remote(name) for name in ("capture:c", "exchange:e", "s3://b", "./s3:", "runs")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert RemoteRecording(keeper="capture", name="capture:cap_1").where == "cap_1"
    keys = {RemoteRecording(keeper="s3", name=name, version=v).key for name in "ab" for v in "12"}
    assert len(keys) == 4
