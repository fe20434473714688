"""``reenact policy`` and ``reenact capabilities``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reenact.policy.capabilities import KNOWN
from reenact.policy.schema import FILES, schemas
from tests.cli.conftest import Run
from tests.meta.markdown import blocks

ROOT = Path(__file__).resolve().parent.parent.parent
WRITTEN = [
    ".gitignore",
    "policies/default.policy.json",
    "sanitizers/default.sanitize.json",
    "index.json",
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)


def _edit(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **more}), "utf-8")


def _policy(root: Path) -> Path:
    return root / ".reenact" / "policies" / "default.policy.json"


def test_init_writes_a_set_that_check_finds_right(run: Run, tmp_path: Path) -> None:
    ran = run("policy", "init")
    assert (ran.code, ran.err) == (0, "")
    folder = tmp_path / ".reenact"
    assert ran.out == "".join(f"wrote {folder / name}\n" for name in WRITTEN)
    checked = run("policy", "check")
    assert (checked.code, checked.out, checked.err) == (0, f"{folder}: ok\n", "")


def test_init_elsewhere_in_json_keeps_an_ignore_file(run: Run, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / ".reenact").mkdir(parents=True)
    (there / ".reenact" / ".gitignore").write_text("mine\n", "utf-8")
    ran = run("policy", "init", "--root", there, "--json")
    assert ran.json()["written"] == [str(there / ".reenact" / name) for name in WRITTEN[1:]]
    assert (there / ".reenact" / ".gitignore").read_text("utf-8") == "mine\n"
    assert run("policy", "check", "--root", there).code == 0


@pytest.mark.parametrize("name", WRITTEN[1:])
def test_init_overwrites_nothing(name: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / ".reenact" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine", "utf-8")
    ran = run("policy", "init")
    assert (ran.code, ran.out) == (2, "")
    assert "is there already" in ran.err
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]
    assert path.read_text("utf-8") == "mine"


@pytest.mark.parametrize("action", ["init", "check", "show", "pin"])
def test_root_that_is_no_folder(action: str, run: Run) -> None:
    ran = run("policy", action, "--root", "nowhere")
    assert ran.code == 2
    assert "nowhere is not a folder" in ran.err


def test_check_lists_every_mistake_with_hints(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    _edit(_policy(tmp_path), vloatile=[], mode="recrod")
    ran = run("policy", "check")
    assert ran.code == 2
    file = ".reenact/policies/default.policy.json"
    assert ran.out == (
        f"{file} $.mode: error: 'recrod' is not a choice here\n"
        "  hint: did you mean record?\n"
        f"{file} $.vloatile: error: there is no such field\n"
        "  hint: did you mean volatile?\n"
    )
    assert "2 mistakes" in ran.err
    assert ran.hint
    found = run("policy", "check", "--json").json()
    assert found["ok"] is False
    assert [one["path"] for one in found["findings"]] == ["$.mode", "$.vloatile"]


def test_check_without_policies_says_how_to_begin(run: Run) -> None:
    ran = run("policy", "check")
    assert ran.code == 2
    assert "policy init" in ran.hint


def test_escapes_in_files_do_not_reach_the_screen(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    _edit(_policy(tmp_path), **{"a\x1b[31mb": 1})
    ran = run("policy", "check")
    assert ran.code == 2
    assert "\x1b" not in ran.out + ran.err


def test_edit_unpins_and_pin_accepts_it(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    _edit(_policy(tmp_path), unused="allow")
    ran = run("policy", "show")
    assert ran.code == 2
    assert "reenact policy pin default" in ran.hint
    pinned = run("policy", "pin", "default")
    assert pinned.code == 0
    first, second = pinned.out.splitlines()
    assert " -> sha256:" in first
    assert second.endswith("unchanged")
    assert run("policy", "check").code == 0
    assert run("policy", "pin", "--json").json()["pins"][0]["before"].startswith("sha256:")


def test_pin_of_nothing_new_leaves_the_index_alone(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    index = tmp_path / ".reenact" / "index.json"
    index.write_text(json.dumps(json.loads(index.read_bytes())), "utf-8")
    before = index.read_bytes()
    assert run("policy", "pin").out.count("unchanged") == 2
    assert index.read_bytes() == before


def test_pin_of_an_unknown_policy(run: Run) -> None:
    run("policy", "init")
    ran = run("policy", "pin", "defualt")
    assert (ran.code, ran.hint) == (2, "did you mean default?")


def test_show_says_what_is_in_force_and_why(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    ran = run("policy", "show")
    assert (ran.code, ran.err) == (0, "")
    lines = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line}
    assert lines["policy"] == ["default"]
    assert lines["file"] == [".reenact/policies/default.policy.json"]
    assert lines["world"] == ["local"]
    assert lines["match"] == ["lane", "policy"]
    assert lines["redaction"] == ["default", "sanitizer"]
    assert lines["durability"] == ["interval", "default"]
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert run("policy", "show", "--root", tmp_path).out == ran.out


def test_show_finds_the_root_upwards(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("policy", "init")
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert run("policy", "show", "--json").json()["file"].startswith(".reenact/")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_ROOT", str(tmp_path / "a"))
    assert run("policy", "show", "--json").json()["file"] == "built in"


def test_show_knows_where_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = run("policy", "show", "--json").json()
    settings = {one["name"]: (one["value"], one["origin"]) for one in built_in["settings"]}
    assert settings["redaction"] == ("default", "default")
    monkeypatch.setenv("CI", "1")
    in_ci = run("policy", "show", "--json").json()
    settings = {one["name"]: (one["value"], one["origin"]) for one in in_ci["settings"]}
    assert in_ci["world"] == "ci"
    assert settings["redaction"] == ("strict", "default")
    assert settings["strictness"] == ("strict", "default")
    monkeypatch.setenv("REENACT_WORLD", "production")
    run("policy", "init")
    assert "may not be used" in run("policy", "show").out
    monkeypatch.setenv("REENACT_WORLD", "producton")
    assert "did you mean production?" in run("policy", "show").hint


def test_show_of_an_unknown_policy(run: Run) -> None:
    ran = run("policy", "show", "nightly")
    assert ran.code == 2
    assert "no policy nightly" in ran.err


def test_nested_misuse_names_the_nested_help(run: Run) -> None:
    for words, hint in (
        (["policy"], "reenact policy --help"),
        (["policy", "chekc"], "reenact policy --help"),
        (["policy", "pin", "a", "b"], "reenact policy pin --help"),
        (["policy", "init", "--rot", "x"], "reenact policy init --help"),
    ):
        ran = run(*words)
        assert (ran.code, ran.out, ran.hint) == (2, "", hint)


@pytest.mark.parametrize("action", ["init", "check", "show", "pin"])
def test_nested_help_has_an_example(action: str, run: Run) -> None:
    ran = run("policy", action, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: reenact policy {action} ")
    assert f"example: reenact policy {action}" in ran.out
    assert action in run("policy", "--help").out
    assert f"### policy {action}" in (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")


def test_nested_commands_are_completed(run: Run) -> None:
    script = run("completion", "bash").out
    assert "policy_pin" in script


def test_capabilities(run: Run) -> None:
    ran = run("capabilities")
    assert (ran.code, ran.err) == (0, "")
    assert f"set {KNOWN.capability_set_hash()}" in ran.out
    assert "net.fetch     1\n" in ran.out
    found = run("capabilities", "--json").json()
    assert found["protocolVersion"] == 1
    assert found["capabilitySetHash"] == KNOWN.capability_set_hash()
    assert {"name": "mcp.call", "version": "1"} in found["capabilities"]


def _shown() -> list[Any]:
    page = ROOT / "docs" / "guides" / "policies.md"
    return [json.loads(block.text) for block in blocks(page) if block.language == "json"]


def test_set_in_the_guide_is_right_once_it_is_pinned(run: Run, tmp_path: Path) -> None:
    index, policy, sanitizer = _shown()
    (entry,) = index["policies"]
    files = {
        "index.json": index,
        entry["path"]: policy,
        entry["sanitizer"]["path"]: sanitizer,
    }
    for name, value in files.items():
        path = tmp_path / ".reenact" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), "utf-8")
    assert run("policy", "check").out.count("is not pinned yet") == 2
    assert run("policy", "pin").out.count("not pinned -> sha256:") == 2
    checked = run("policy", "check", "--json").json()
    assert (checked["ok"], checked["findings"]) == (True, [])
    assert run("policy", "show", "support-agent", "--json").json()["policy"] == "support-agent"


def test_files_in_the_guide_fit_their_schemas() -> None:
    shown = _shown()
    names = {version: name for name, (_, version) in FILES.items()}
    assert sorted(raw["schemaVersion"] for raw in shown) == sorted(names)
    for raw in shown:
        schema = json.loads(schemas()[f"{names[raw['schemaVersion']]}.schema.json"])
        assert list(jsonschema.Draft202012Validator(schema).iter_errors(raw)) == []
