"""Where a cassette is looked for and written: the project's folder, or that of a fixture."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import PathRefused, PolicyInvalid, PolicyRefused, RrError, rr
from reenact.policy.index import pinned_index
from tests.unit.policy.sets import POLICY, SANITIZER, put, put_set
from tests.unit.policy.unsafe_names import REFUSED

SMOKE = {**POLICY, "id": "smoke_v1"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    put_set(folder, SMOKE, worlds=["test"])
    return folder


def _ping(mode: str, name: str = "smoke.jsonl", answer: str = "PONG", **more: Any) -> str:
    with reenact.session(name, policy="smoke_v1", mode=mode, **more) as session:
        found = session.call("ping", {}, lambda: answer, capability="net.fetch")
        assert isinstance(found, str)
        return found


def _tapes(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob("*.jsonl"))


def test_a_name_is_a_cassette_of_the_project(root: Path) -> None:
    _ping("record")
    assert _tapes(root) == [".reenact/cassettes/smoke.jsonl"]
    assert _ping("replay", answer="another") == "PONG"

    async def replay() -> Any:
        async with reenact.session("smoke.jsonl", policy="smoke_v1", mode="replay") as session:
            live = asyncio.Event().wait
            return await session.aio.call("ping", {}, live, capability="net.fetch")

    assert asyncio.run(replay()) == "PONG"


def test_the_argument_goes_before_the_variable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ping("record", answer="project")
    _ping("record", answer="argument", fixture_root="fixtures/one")
    monkeypatch.setenv("REENACT_FIXTURE_ROOT", "fixtures/two")
    _ping("record", answer="variable")
    assert _tapes(root) == [
        ".reenact/cassettes/smoke.jsonl",
        "fixtures/one/rr/smoke.jsonl",
        "fixtures/two/rr/smoke.jsonl",
    ]
    assert _ping("replay") == "variable"
    assert _ping("replay", fixture_root=root / "fixtures" / "one") == "argument"
    monkeypatch.setenv("REENACT_FIXTURE_ROOT", "")
    assert _ping("replay") == "project"


def test_a_folder_without_rr_is_read_itself_and_written_below_rr(root: Path) -> None:
    _ping("record", fixture_root="fixtures")
    (root / "fixtures/rr/smoke.jsonl").rename(root / "fixtures/smoke.jsonl")
    (root / "fixtures/rr").rmdir()
    assert _ping("replay", answer="new", fixture_root="fixtures") == "PONG"
    assert _ping("record_missing", answer="new", fixture_root="fixtures") == "PONG"
    assert _tapes(root) == ["fixtures/smoke.jsonl"]
    _ping("rewrite", answer="new", fixture_root="fixtures")
    assert _tapes(root) == ["fixtures/rr/smoke.jsonl", "fixtures/smoke.jsonl"]
    assert _ping("replay", fixture_root="fixtures") == "new"
    with pytest.raises(reenact.RecordingMissing):
        _ping("replay", "other", fixture_root="fixtures")


def test_handles_are_looked_for_in_the_same_places(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"kind": "rr", "op": "x", "key": "k", "resp": "v"}
    put_set(root, POLICY)
    with rr.scope({"path": "h", "mode": "record", "fixture_root": root / "fixtures"}) as handle:
        rr.append(handle, entry)
    monkeypatch.setenv("REENACT_FIXTURE_ROOT", "fixtures")
    with rr.scope({"path": "h", "mode": "replay"}) as handle:
        assert rr.next(handle, "rr", "x", "k").resp == b"v"
    assert _tapes(root) == ["fixtures/rr/h.jsonl"]
    for wrong in (".", "../x", 7):
        with pytest.raises(RrError, match="2000") as found:
            rr.open({"path": "h", "fixture_root": wrong})
        assert found.value.hint


# A name from a file that somebody else wrote


@pytest.mark.parametrize("mode", ["record", "replay", "record_missing", "rewrite"])
def test_no_unsafe_name_is_opened(mode: str, root: Path) -> None:
    before = sorted(os.walk(root.parent))
    for name, reason in REFUSED:
        for fixtures in (None, "fixtures"):
            with pytest.raises(PathRefused, match=reason) as found:
                reenact.session(name, mode=mode, fixture_root=fixtures)
            assert found.value.hint
            assert found.value.fields["reason"]
        if "\udcff" not in name:  # the numbers of X07 have that already
            with pytest.raises(RrError, match=reason) as refused:
                rr.open({"path": name, "mode": mode})
            assert (refused.value.number, bool(refused.value.hint)) == (2000, True)
    assert sorted(os.walk(root.parent)) == before


@pytest.mark.parametrize("mode", ["record", "replay", "record_missing", "rewrite"])
def test_no_symlink_leads_a_cassette_away(mode: str, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for base in (root / ".reenact/cassettes", root / "fixtures/rr"):
        base.mkdir(parents=True)
        (base / "folder").symlink_to(outside)
        (base / "file.jsonl").symlink_to(outside / "there.jsonl")
    (root / "through").mkdir()
    (root / "through" / "rr").symlink_to(outside)
    (root / "away").symlink_to(outside)
    for name, fixtures in (
        ("folder/x", None),
        ("file", None),
        ("folder/x", "fixtures"),
        ("file.jsonl", "fixtures"),
        ("x", "through"),
        ("x", "away"),
    ):
        with pytest.raises(PathRefused, match="symlink"):
            reenact.session(name, mode=mode, fixture_root=fixtures)
        with pytest.raises(RrError, match="symlink"):
            rr.open({"path": name, "mode": mode, "fixture_root": fixtures})
    assert list(outside.iterdir()) == []


# Policies


def test_an_edited_policy_is_not_used_until_it_is_pinned(root: Path) -> None:
    _ping("record")
    put(root, "policies/smoke_v1.policy.json", {**SMOKE, "unused": "allow"})
    with pytest.raises(PolicyInvalid, match="not what the index pins") as found:
        _ping("replay")
    assert found.value.hint.endswith("reenact policy pin smoke_v1")
    _pin(root, "smoke_v1")
    assert _ping("replay") == "PONG"


def test_a_policy_that_the_index_does_not_name_is_pinned_by_its_id(root: Path) -> None:
    put(root, "policies/new_v1.policy.json", {**POLICY, "id": "new_v1", "sanitizer": "mine"})
    put(root, "sanitizers/mine.sanitize.json", SANITIZER)
    with pytest.raises(PolicyInvalid, match="is not pinned") as found:
        reenact.session("x", policy="new_v1", mode="record")
    assert found.value.hint.endswith("reenact policy pin new_v1")
    _pin(root, "new_v1")
    with reenact.session("x", policy="new_v1", mode="record") as session:
        assert session.settings.pinned.sanitizer is not None
        assert session.settings.pinned.worlds == ("ci", "local", "test")
    with pytest.raises(PolicyInvalid, match="has no policy newer_v1"):
        reenact.session("x", policy="newer_v1", mode="record")


def test_an_index_that_is_lost_is_made_anew_policy_by_policy(root: Path) -> None:
    (root / ".reenact" / "index.json").unlink()
    with pytest.raises(PolicyInvalid, match="no such file") as found:
        reenact.session("x", mode="record")
    assert "reenact policy pin ID" in found.value.hint
    _pin(root, "smoke_v1")
    assert _ping("record") == "PONG"


def test_a_policy_whose_name_and_id_differ_is_not_pinned(root: Path) -> None:
    put(root, "policies/new_v1.policy.json", {**POLICY, "id": "old_v1"})
    with pytest.raises(PolicyInvalid, match="its id is old_v1") as found:
        pinned_index(root, "new_v1")
    assert found.value.hint
    for name in ("../smoke_v1", "no_such"):
        with pytest.raises(PolicyInvalid, match="has no policy"):
            pinned_index(root, name)


def _pin(root: Path, policy_id: str) -> None:
    content, _ = pinned_index(root, policy_id)
    assert content is not None
    put(root, "index.json", content)


@pytest.mark.parametrize("world, allowed", [("test", True), ("ci", False), ("production", False)])
def test_a_policy_is_used_in_its_worlds(
    world: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_WORLD", world)
    if allowed:
        assert _ping("record") == "PONG"
        return
    with pytest.raises(PolicyRefused, match=f"the world {world} for the policy smoke_v1") as found:
        _ping("record")
    assert "allowed: test" in found.value.hint


def test_without_any_policy_the_built_in_one_holds(tmp_path: Path) -> None:
    with reenact.session("x", mode="record", root=tmp_path / "empty") as session:
        session.call("ping", {}, lambda: 1, capability="net.fetch")
    assert (tmp_path / "empty/.reenact/cassettes/x.jsonl").exists()
