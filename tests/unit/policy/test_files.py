"""Reading one policy file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import PolicyInvalid
from reenact.format.canonical import digest
from reenact.policy.files import Finding, Loaded, load_file, raise_first
from reenact.policy.model import POLICY_SCHEMA, Policy
from tests.unit.policy.sets import POLICY, put

FILE = "policies/default.policy.json"


def _load(root: Path, relative: str = FILE) -> tuple[Loaded[Policy] | None, list[Finding]]:
    return load_file(root, relative, Policy, POLICY_SCHEMA)


def _only(root: Path, relative: str = FILE) -> Finding:
    loaded, findings = _load(root, relative)
    assert loaded is None
    (finding,) = findings
    assert finding.severity == "error"
    assert finding.file == f".reenact/{relative}"
    return finding


def test_file_is_read_with_its_digest_and_what_it_states(tmp_path: Path) -> None:
    raw = {**POLICY, "match": "lane", "budgets": {"entries": 3}}
    put(tmp_path, FILE, raw)
    loaded, findings = _load(tmp_path)
    assert findings == []
    assert loaded is not None
    assert loaded.value.budgets.entries == 3
    assert loaded.digest == digest(raw)
    assert loaded.stated == {"schemaVersion", "id", "match", "budgets", "budgets.entries"}


def test_reformatting_does_not_change_the_digest(tmp_path: Path) -> None:
    raw = {**POLICY, "match": "lane"}
    put(tmp_path, FILE, json.dumps(dict(reversed(raw.items())), indent=7).encode() + b"\n\n")
    loaded, _ = _load(tmp_path)
    assert loaded is not None
    assert loaded.digest == digest(raw)


@pytest.mark.parametrize(
    "content, path, message",
    [
        (b"", "$", "not JSON"),
        (b"{", "$", "not JSON"),
        (b'{"id": "a", "id": "b"}', "$", "stands twice"),
        (b'{"id": "\xff"}', "$", "not UTF-8 at byte 8"),
        (b'{"id": NaN}', "$", "NaN"),
        (b"[" * 300 + b"]" * 300, "$", "nested deeper"),
        (b"[]", "$", "not a JSON object"),
        (b'{"id": "default"}', "$", "schemaVersion is missing"),
        (b'{"schemaVersion": "reenact.policy@2"}', "$.schemaVersion", "reenact.policy@1"),
        (b'{"schemaVersion": 1}', "$.schemaVersion", "reenact.policy@1"),
        (b" " * (1 << 20) + b"{}", "$", "more than 1048576 bytes"),
    ],
)
def test_content_that_cannot_be_read(
    content: bytes, path: str, message: str, tmp_path: Path
) -> None:
    put(tmp_path, FILE, content)
    finding = _only(tmp_path)
    assert finding.path == path
    assert message in finding.message
    assert finding.hint


def test_unknown_fields_are_errors_with_place_and_nearest_name(tmp_path: Path) -> None:
    put(tmp_path, FILE, {**POLICY, "net": {"domain": ["a.com"]}})
    finding = _only(tmp_path)
    assert finding.place == f".reenact/{FILE} $.net.domain"
    assert finding.hint == "did you mean domains?"
    error = finding.to_error()
    assert isinstance(error, PolicyInvalid)
    assert error.place == finding.place
    assert error.message.startswith(finding.place)


def test_missing_file(tmp_path: Path) -> None:
    finding = _only(tmp_path)
    assert finding.message == "there is no such file"
    assert "policy init" in finding.hint


@pytest.mark.parametrize("relative", ["../x", "/etc/passwd", "a//b", "a\\b", "C:x", "./x"])
def test_path_that_leaves_the_folder(relative: str, tmp_path: Path) -> None:
    assert "is refused" in _only(tmp_path, relative).message


def test_symlink_that_leads_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(POLICY), "utf-8")
    path = put(tmp_path, FILE, POLICY)
    path.unlink()
    path.symlink_to(tmp_path / "secret.json")
    assert "symlink" in _only(tmp_path).message


def test_folder_and_pipe_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / ".reenact" / "policies"
    (folder / "a.policy.json").mkdir(parents=True)
    os.mkfifo(folder / "b.policy.json")
    for name in ("a", "b"):
        assert "regular file" in _only(tmp_path, f"policies/{name}.policy.json").message


def test_first_error_is_raised_and_warnings_are_not() -> None:
    odd = Finding("warning", "f", "$.a", "odd")
    raise_first([odd])
    wrong: list[Any] = [odd, Finding("error", "f", "$.b", "wrong", "do this"), odd]
    with pytest.raises(PolicyInvalid, match=r"f \$\.b: wrong") as found:
        raise_first(wrong)
    assert found.value.hint == "do this"
