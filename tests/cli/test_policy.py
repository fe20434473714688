"""``reenact policy`` and ``reenact capabilities``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reenact.policy.access import KNOWN
from reenact.policy.schema import FILES, schemas
from tests.cli.conftest import Run
from tests.meta.markdown import blocks
from tests.unit.policy.arches import (
    ARCH_POLICY,
    ARCH_SANITIZER,
    REFERENCE,
    arch_index,
    put_arch,
)

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


def _files(folder: Path) -> dict[str, bytes]:
    """Everything below ``folder``: contents of files, and a mark for folders."""
    found = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else b"/" for path in found}


def test_import_writes_a_set_that_check_finds_right(run: Run, tmp_path: Path) -> None:
    put_arch(tmp_path)
    ran = run("policy", "import", "arch/rr")
    assert (ran.code, ran.err) == (0, "")
    folder = tmp_path / ".reenact"
    lines = ran.out.splitlines()
    assert lines[:4] == [
        f"wrote {folder / '.gitignore'}",
        f"wrote {folder / 'policies' / 'smoke_rr_v1.policy.json'}",
        f"wrote {folder / 'sanitizers' / 'sanitize_none_v1.sanitize.json'}",
        f"wrote {folder / 'index.json'}",
    ]
    assert lines[4] == "from arch/rr/index.x07rr.json:"
    assert "  mapped  $.policies[0].worlds_allowed[3]: solve-rr is ci and test" in lines
    assert lines[-1] == "imported smoke_rr_v1; 6 settings changed, 3 settings lost"
    checked = run("policy", "check", "--json").json()
    assert (checked["ok"], checked["findings"]) == (True, [])
    assert run("policy", "show", "smoke_rr_v1", "--json").json()["policy"] == "smoke_rr_v1"


def test_import_in_json_and_elsewhere(run: Run, tmp_path: Path) -> None:
    salt = "a-salt-in-a-file"
    put_arch(tmp_path, sanitizer={**ARCH_SANITIZER, "stable_pseudonym_salt": salt})
    there = tmp_path / "there"
    there.mkdir()
    ran = run("policy", "import", "arch/rr", "--root", there, "--json")
    found = ran.json()
    assert (ran.code, found["ok"], found["policies"]) == (0, True, ["smoke_rr_v1"])
    assert (found["from"], found["root"]) == ("arch/rr", str(there))
    assert sorted(found["written"]) == [path for path, it in _files(there).items() if it != b"/"]
    assert found["kept"] == []
    assert {
        "fate": "mapped",
        "file": "arch/rr/policies/smoke_rr_v1.policy.json",
        "path": "$.match_mode",
        "message": 'match "lookup"',
        "hint": "",
    } in found["notes"]
    assert "$.stable_pseudonym_salt" in [one["path"] for one in found["notes"]]
    assert salt not in ran.out + ran.err
    assert not any(salt.encode() in content for content in _files(there).values())


def test_import_joins_the_set_of_init(run: Run, tmp_path: Path) -> None:
    run("policy", "init")
    put_arch(tmp_path)
    assert run("policy", "import", "arch/rr").code == 0
    assert run("policy", "check").out == f"{tmp_path / '.reenact'}: ok\n"
    index = json.loads((tmp_path / ".reenact" / "index.json").read_bytes())
    assert [one["id"] for one in index["policies"]] == ["default", "smoke_rr_v1"]


def test_import_twice_is_refused_and_changes_nothing(run: Run, tmp_path: Path) -> None:
    put_arch(tmp_path)
    run("policy", "import", "arch/rr")
    before = _files(tmp_path)
    ran = run("policy", "import", "arch/rr")
    assert (ran.code, ran.out) == (2, "")
    assert "smoke_rr_v1 already" in ran.err
    assert "nothing was imported" in ran.hint
    assert _files(tmp_path) == before


def test_import_of_one_free_and_one_taken_id_takes_neither(run: Run, tmp_path: Path) -> None:
    put_arch(tmp_path)
    run("policy", "import", "arch/rr")
    other = {**REFERENCE, "id": "other", "policy_path": "policies/other.policy.json"}
    folder = put_arch(tmp_path, index=arch_index(other, REFERENCE))
    policy = folder / "policies" / "other.policy.json"
    policy.write_text(json.dumps({**ARCH_POLICY, "id": "other"}), "utf-8")
    before = _files(tmp_path)
    assert run("policy", "import", "arch/rr", "--json").json()["error"]["code"] == "usage"
    assert _files(tmp_path) == before


def test_import_that_cannot_be_written_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    put_arch(tmp_path)
    (tmp_path / ".reenact").mkdir()
    (tmp_path / ".reenact" / "sanitizers").write_text("in the way", "utf-8")
    before = _files(tmp_path)
    ran = run("policy", "import", "arch/rr")
    assert ran.code != 0
    assert ran.hint
    assert _files(tmp_path) == before


def test_import_lists_every_mistake_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    policy = {**ARCH_POLICY, "mode_default": "recrod_v1", "htp": {}}
    put_arch(tmp_path, policy=policy)
    ran = run("policy", "import", "arch/rr")
    file = "arch/rr/policies/smoke_rr_v1.policy.json"
    assert ran.code == 2
    assert ran.out == (
        f"{file} $.mode_default: error: 'recrod_v1' is not a choice here\n"
        "  hint: did you mean record_v1?\n"
        f"{file} $.htp: error: there is no such field\n"
        "  hint: did you mean http?\n"
    )
    assert "2 mistakes in arch/rr" in ran.err
    found = run("policy", "import", "arch/rr", "--json").json()
    assert (found["ok"], len(found["findings"])) == (False, 2)
    assert not (tmp_path / ".reenact").exists()


def test_import_of_what_is_no_arch_folder(run: Run, tmp_path: Path) -> None:
    ran = run("policy", "import", "nowhere")
    assert (ran.code, ran.out) == (2, "")
    assert "nowhere is not a folder" in ran.err
    assert "index.x07rr.json" in ran.hint
    put_arch(tmp_path)
    ran = run("policy", "import", ".")
    assert (ran.code, ran.out.split(":")[0]) == (2, "index.x07rr.json")
    assert "arch/rr" in ran.hint
    assert "nowhere is not a folder" in run("policy", "import", "arch/rr", "--root", "nowhere").err


def test_escapes_in_imported_files_do_not_reach_the_screen(run: Run, tmp_path: Path) -> None:
    index = arch_index({**REFERENCE, "ops_allowed": ["std.\x1b[31m"]})
    put_arch(tmp_path, index=arch_index({**REFERENCE, "kinds_allowed": ["\x1b]0;a\x07"]}))
    ran = run("policy", "import", "arch/rr")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    put_arch(tmp_path, index={**index, "a\x1b[31mb": 1})
    ran = run("policy", "import", "arch/rr")
    assert ran.code == 2
    assert "\x1b" not in ran.out + ran.err


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
    assert "is not allowed" in run("policy", "show").out
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


@pytest.mark.parametrize("action", ["init", "import", "check", "show", "pin"])
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
    assert f"hash of the set: {KNOWN.capability_set_hash()}" in ran.out
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
    names = {version: name for name, (_, version) in FILES.items() if name != "tests"}
    assert sorted(raw["schemaVersion"] for raw in shown) == sorted(names)
    for raw in shown:
        schema = json.loads(schemas()[f"{names[raw['schemaVersion']]}.schema.json"])
        assert list(jsonschema.Draft202012Validator(schema).iter_errors(raw)) == []
