"""The roots of files in a policy: their shape, what is odd about them, and what a session makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.engine.session.settings import resolve_settings
from reenact.policy.model import Files, Policy
from reenact.policy.validation import policy_findings


def _policy(**files: Any) -> Policy:
    said = {"schemaVersion": "reenact.policy@1", "id": "p", "files": files}
    return msgspec.json.decode(json.dumps(said), type=Policy)


def test_they_are_read_and_written_as_they_are() -> None:
    policy = _policy(roots=["data", "notes/today.md"], content=True)
    assert policy.files == Files(("data", "notes/today.md"), content=True)
    assert policy.to_json()["files"] == {"roots": ("data", "notes/today.md"), "content": True}
    assert "files" not in Policy(id="p").to_json()


@pytest.mark.parametrize("root", ["", "a\0b", "x" * 1025, 7], ids=["none", "nul", "long", "number"])
def test_what_is_no_path_is_refused(root: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.files\.roots\[0\]"):
        _policy(roots=[root])


def test_a_place_on_one_machine_is_odd() -> None:
    policy = _policy(roots=["data", "/srv/data"])
    (found,) = policy_findings(policy, "p.json", "p", None, False, None)
    assert (found.severity, found.path) == ("warning", "$.files.roots[1]")
    assert "on this machine only" in found.message


def test_where_they_are_and_what_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    roots = ["data/", "./a/../b", "link"]
    found = resolve_settings(capture=tmp_path / "c", mode="record", root=tmp_path, files=roots)
    assert found.files == (
        (f"{tmp_path}/data", "data"),
        (f"{tmp_path}/b", "b"),
        (f"{tmp_path}/link", "link"),
        (f"{tmp_path}/real", "link"),
    )
    assert {f"{tmp_path}/c", f"{tmp_path}/.reenact"} <= found.files_apart


def test_an_argument_holds_over_the_policy(tmp_path: Path) -> None:
    policy = _policy(roots=["data"], content=True)
    place: dict[str, Any] = {
        "capture": tmp_path / "c",
        "mode": "record",
        "root": tmp_path,
        "policy": policy,
    }
    assert resolve_settings(**place).policy.files.roots == ("data",)
    assert resolve_settings(**place, files=["other"]).policy.files == Files(
        ("other",), content=True
    )
    assert resolve_settings(**place, files=[]).files == ()
