"""Policies of X07 as ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reenact.errors import PolicyInvalid, PolicyRefused, UsageError
from reenact.policy.access import Access, check_mode
from reenact.policy.files import Finding
from reenact.policy.index import check_all, load_policy
from reenact.policy.model import Pinned
from reenact.policy.schema import FILES, schemas
from reenact.policy.x07_files import load_arch
from reenact.policy.x07_importer import Import, Note, import_arch
from tests.unit.policy.arches import ARCH_POLICY, ARCH_SANITIZER, REFERENCE, arch_index, put_arch
from tests.unit.policy.sets import POLICY, SANITIZER, put, put_set

SALT = "a-salt-in-a-file"


def _imported(root: Path, folder: Path) -> Import:
    """Read the folder and write what comes of it, as the command does."""
    arch, findings = load_arch(folder)
    assert findings == []
    assert arch is not None
    found = import_arch(arch, root)
    for name, content in (found.files | {"index.json": found.index}).items():
        put(root, name, content)
    assert [one for one in check_all(root) if one.severity == "error"] == []
    return found


def _pinned(root: Path, **changed: Any) -> Pinned:
    _imported(root, put_arch(root, **changed))
    return load_policy(root, "smoke_rr_v1")


def _only(folder: Path) -> Finding:
    arch, (finding,) = load_arch(folder)
    assert arch is None
    assert finding.severity == "error"
    assert finding.hint
    return finding


def _note(found: Import, path: str) -> Note:
    (note,) = (one for one in found.notes if one.path == path)
    return note


def test_smallest_example_becomes_a_set_that_is_right(tmp_path: Path) -> None:
    found = _imported(tmp_path, put_arch(tmp_path))
    assert check_all(tmp_path) == []
    assert found.policies == ("smoke_rr_v1",)
    assert (list(found.files), found.kept) == (
        ["policies/smoke_rr_v1.policy.json", "sanitizers/sanitize_none_v1.sanitize.json"],
        (),
    )
    names = {version: name for name, (_, version) in FILES.items()}
    for content in (*found.files.values(), found.index):
        raw = json.loads(content)
        schema = json.loads(schemas()[f"{names[raw['schemaVersion']]}.schema.json"])
        jsonschema.Draft202012Validator(schema).validate(raw)


def test_settings_of_the_smallest_example(tmp_path: Path) -> None:
    pinned = _pinned(tmp_path)
    assert pinned.policy.to_json() == {
        "schemaVersion": "reenact.policy@1",
        "id": "smoke_rr_v1",
        "mode": "replay",
        "match": "lookup",
        "strictness": "strict",
        "budgets": {
            "cassetteBytes": 1048576,
            "entries": 100,
            "requestBytes": 1024,
            "responseBytes": 131072,
            "keyBytes": 256,
        },
        "sanitizer": "sanitize_none_v1",
    }
    assert pinned.modes == ("replay",)
    assert pinned.worlds == ("ci", "local", "run-os-sandboxed", "test")
    assert pinned.kinds == ("rr",)
    assert pinned.operations == ("std.rr.fetch_v1", "std.stream.src.rr_send_v1")
    assert pinned.sanitizer is not None
    assert (pinned.sanitizer.id, pinned.sanitizer.profile) == ("sanitize_none_v1", "default")
    assert (pinned.sanitizer.secret_names, pinned.sanitizer.salt_env) == ((), None)


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("off", "off"),
        ("record_v1", "record"),
        ("replay_v1", "replay"),
        ("record_missing_v1", "record_missing"),
        ("rewrite_v1", "rewrite"),
    ],
)
def test_modes(theirs: str, ours: str, tmp_path: Path) -> None:
    index = arch_index(REFERENCE, defaults={"record_modes_allowed": [theirs]})
    pinned = _pinned(tmp_path, index=index, policy={**ARCH_POLICY, "mode_default": theirs})
    assert (pinned.policy.mode, pinned.modes) == (ours, (ours,))
    check_mode(pinned, ours, "test")
    with pytest.raises(PolicyRefused, match="world production"):
        check_mode(pinned, ours, "production")


@pytest.mark.parametrize("more", [{}, {"defaults": {"record_modes_allowed": []}}])
def test_index_that_names_no_modes_allows_replay_alone(more: Any, tmp_path: Path) -> None:
    assert _pinned(tmp_path, index=arch_index(REFERENCE, **more)).modes == ("replay",)


def test_transcript_is_said_to_compare_more(tmp_path: Path) -> None:
    found = _imported(
        tmp_path, put_arch(tmp_path, policy={**ARCH_POLICY, "match_mode": "transcript_v1"})
    )
    assert load_policy(tmp_path, "smoke_rr_v1").policy.match == "transcript"
    note = _note(found, "$.match_mode")
    assert note.fate == "changed"
    assert "keys" in note.message


def test_budget_of_zero_stays_zero(tmp_path: Path) -> None:
    budgets = dict.fromkeys(ARCH_POLICY["budgets"], 0)
    policy = _pinned(tmp_path, policy={**ARCH_POLICY, "budgets": budgets}).policy
    assert policy.to_json()["budgets"] == {
        "cassetteBytes": 0,
        "entries": 0,
        "requestBytes": 0,
        "responseBytes": 0,
        "keyBytes": 0,
    }


def test_headers_of_the_http_key(tmp_path: Path) -> None:
    key = {
        "include_headers": ["accept", "x-tenant"],
        "ignore_headers": ["x-request-id"],
        "query_sort": "lex_u8_v1",
        "body_hash": "sha256_v1",
    }
    folder = put_arch(tmp_path, policy={**ARCH_POLICY, "http": {"key_v1": key}})
    found = _imported(tmp_path, folder)
    policy = load_policy(tmp_path, "smoke_rr_v1").policy
    assert policy.key_headers == ("accept", "x-tenant")
    assert policy.ignore.headers == ("x-request-id",)
    fates = {name: _note(found, f"$.http.key_v1.{name}").fate for name in key}
    assert fates == {
        "include_headers": "mapped",
        "ignore_headers": "mapped",
        "query_sort": "lost",
        "body_hash": "lost",
    }


@pytest.mark.parametrize(
    "theirs, ours, fate",
    [
        ("solve-rr", ("ci", "test"), "mapped"),
        ("solve-full", ("ci", "test"), "mapped"),
        ("run-os", ("local",), "changed"),
        ("run-os-sandboxed", ("run-os-sandboxed",), "changed"),
        ("solve-pure", ("solve-pure",), "changed"),
        ("solve-fs", ("solve-fs",), "changed"),
        ("solve-kv", ("solve-kv",), "changed"),
    ],
)
def test_worlds(theirs: str, ours: tuple[str, ...], fate: str, tmp_path: Path) -> None:
    index = arch_index({**REFERENCE, "worlds_allowed": [theirs]})
    found = _imported(tmp_path, put_arch(tmp_path, index=index))
    assert load_policy(tmp_path, "smoke_rr_v1").worlds == ours
    note = _note(found, "$.policies[0].worlds_allowed[0]")
    assert note.fate == fate
    assert all(world in note.message for world in (theirs, *ours))


def test_empty_lists_allow_nothing(tmp_path: Path) -> None:
    lists: dict[str, Any] = {"worlds_allowed": [], "kinds_allowed": [], "ops_allowed": []}
    pinned = _pinned(tmp_path, index=arch_index({**REFERENCE, **lists}))
    assert (pinned.worlds, pinned.kinds, pinned.operations) == ((), (), ())


@pytest.mark.parametrize(
    "theirs, ours, fate",
    [
        ("http", ("http", "network"), "mapped"),
        ("process", ("process",), "mapped"),
        ("file", ("file", "fs"), "mapped"),
        ("rr", ("rr",), "mapped"),
        ("tcp_stream", ("tcp_stream",), "changed"),
        ("mail", ("mail",), "changed"),
    ],
)
def test_kinds(theirs: str, ours: tuple[str, ...], fate: str, tmp_path: Path) -> None:
    index = arch_index({**REFERENCE, "kinds_allowed": [theirs]})
    found = _imported(tmp_path, put_arch(tmp_path, index=index))
    assert load_policy(tmp_path, "smoke_rr_v1").kinds == ours
    assert _note(found, "$.policies[0].kinds_allowed[0]").fate == fate


def test_kinds_of_ours_that_are_not_listed_are_refused_and_said_to_be(tmp_path: Path) -> None:
    found = _imported(tmp_path, put_arch(tmp_path))
    access = Access(load_policy(tmp_path, "smoke_rr_v1"))
    assert isinstance(access.refusal("time.now", "clock", "", 0), PolicyRefused)
    assert "clock" in _note(found, "$.policies[0].kinds_allowed").message


def test_operations_keep_their_names(tmp_path: Path) -> None:
    names = ["std.rr.fetch_v1", "std.net.http.client.get_v1"]
    found = _imported(
        tmp_path, put_arch(tmp_path, index=arch_index({**REFERENCE, "ops_allowed": names}))
    )
    assert load_policy(tmp_path, "smoke_rr_v1").operations == tuple(sorted(names))
    fates = [_note(found, f"$.policies[0].ops_allowed[{number}]").fate for number in (0, 1)]
    assert fates == ["mapped", "changed"]


@pytest.mark.parametrize("name", ["std.*", "std.rr.?", "std[a]", ""])
def test_operation_that_would_be_a_pattern_here_is_refused(name: str, tmp_path: Path) -> None:
    found = _only(put_arch(tmp_path, index=arch_index({**REFERENCE, "ops_allowed": [name]})))
    assert found.path == "$.policies[0].ops_allowed[0]"
    assert "operation" in found.message


def test_sanitizer_names_secrets_and_the_salt_stays_where_it_is(tmp_path: Path) -> None:
    sanitizer = {
        **ARCH_SANITIZER,
        "redact_headers": ["authorization", "x-corp-pin", "**"],
        "redact_token": "<redacted>",
        "stable_pseudonym_salt": SALT,
    }
    found = _imported(tmp_path, put_arch(tmp_path, sanitizer=sanitizer))
    ours = load_policy(tmp_path, "smoke_rr_v1").sanitizer
    assert ours is not None
    assert ours.secret_names == ("authorization", "x-corp-pin")
    assert ours.salt_env == "REENACT_SALT"
    assert _note(found, "$.redact_headers[1]").fate == "changed"
    assert _note(found, "$.redact_headers[2]").fate == "lost"
    assert _note(found, "$.redact_token").fate == "lost"
    salt = _note(found, "$.stable_pseudonym_salt")
    assert (salt.fate, "REENACT_SALT" in salt.hint) == ("lost", True)
    assert SALT not in repr(found)


def test_what_is_the_same_here_is_not_called_lost(tmp_path: Path) -> None:
    found = _imported(tmp_path, put_arch(tmp_path))
    lost = [one.path for one in found.notes if one.fate == "lost"]
    assert lost == ["$.policies[0].cassette_brand", "$.v", "$.v"]


def test_file_that_the_index_leaves_out_is_reported(tmp_path: Path) -> None:
    folder = put_arch(tmp_path)
    (folder / "policies" / "other.policy.json").write_text("{}", "utf-8")
    found = _imported(tmp_path, folder)
    assert found.notes[-1].fate == "lost"
    assert found.notes[-1].file == str(folder / "policies" / "other.policy.json")


def test_policies_are_sorted_and_share_a_sanitizer(tmp_path: Path) -> None:
    first = {**REFERENCE, "id": "a", "policy_path": "policies/a.policy.json"}
    folder = put_arch(tmp_path, index=arch_index(REFERENCE, first))
    (folder / "policies" / "a.policy.json").write_text(
        json.dumps({**ARCH_POLICY, "id": "a"}), "utf-8"
    )
    found = _imported(tmp_path, folder)
    assert found.policies == ("a", "smoke_rr_v1")
    assert [one["id"] for one in json.loads(found.index)["policies"]] == ["a", "smoke_rr_v1"]
    assert len(found.files) == 3
    profile = [one for one in found.notes if "profile" in one.message]
    assert len(profile) == 1


@pytest.mark.parametrize(
    "replaced, path, message, hint",
    [
        ({"index": arch_index({**REFERENCE, "policy_pth": "a"})}, "$.policies[0].policy_pth", "no such field", ""),
        ({"policy": {**ARCH_POLICY, "math_mode": "x"}}, "$.math_mode", "no such field", ""),
        ({"sanitizer": {**ARCH_SANITIZER, "stable_pseudonym_slat": SALT}}, "$.stable_pseudonym_slat", "no such field", "did you mean stable_pseudonym_salt?"),
        ({"policy": {**ARCH_POLICY, "budgets": {**ARCH_POLICY["budgets"], "max_entires": 1}}}, "$.budgets.max_entires", "no such field", ""),
        ({"policy": {**ARCH_POLICY, "http": {"key_v2": {}}}}, "$.http.key_v2", "no such field", "did you mean key_v1?"),
        ({"policy": {**ARCH_POLICY, "mode_default": "recrod_v1"}}, "$.mode_default", "not a choice", "did you mean record_v1?"),
        ({"policy": {**ARCH_POLICY, "v": 0}}, "$.v", "1 or more", ""),
        ({"policy": {**ARCH_POLICY, "budgets": {**ARCH_POLICY["budgets"], "max_entries": -1}}}, "$.budgets.max_entries", "0 or more", ""),
        ({"index": arch_index({**REFERENCE, "cassette_brand": "std.rr.cassette_v2"})}, "$.policies[0].cassette_brand", "not a choice", "did you mean std.rr.cassette_v1?"),
        ({"index": arch_index({**REFERENCE, "worlds_allowed": ["solve-rrr"]})}, "$.policies[0].worlds_allowed[0]", "not a choice", "did you mean solve-rr?"),
        ({"index": arch_index({**REFERENCE, "id": "../up"})}, "$.policies[0].id", "an id", ""),
        ({"policy": {**ARCH_POLICY, "id": "smoke"}}, "$.id", "smoke_rr_v1 in the index", ""),
        ({"sanitizer": {**ARCH_SANITIZER, "id": "none"}}, "$.id", "sanitize_none_v1 in the index", ""),
        ({"policy": {**ARCH_POLICY, "mode_default": "record_v1"}}, "$.mode_default", "does not allow the mode record_v1", "allowed: replay_v1"),
        ({"sanitizer": {**ARCH_SANITIZER, "redact_headers": ["a b"]}}, "$.redact_headers[0]", "a header", ""),
        ({"index": arch_index()}, "$.policies", "names no policy", ""),
        ({"policy": {**ARCH_POLICY, "schema_version": "x07.arch.rr.policy@0.2.0"}}, "$", "x07.arch.rr.policy@0.1.0", ""),
        ({"sanitizer": b"[]"}, "$", "x07.arch.rr.sanitize@0.1.0", ""),
        ({"policy": b"{"}, "$", "not JSON", ""),
        ({"policy": b'{"id": "a", "id": "b"}'}, "$", "stands twice", ""),
        ({"policy": b"[" * 3_000}, "$", "", ""),
        ({"policy": b" " * (1 << 20) + b"{}"}, "$", "more than", ""),
    ],
)  # fmt: skip
def test_mistakes_have_a_place_and_a_way_out(
    replaced: dict[str, Any], path: str, message: str, hint: str, tmp_path: Path
) -> None:
    folder = put_arch(tmp_path, **replaced)
    arch, findings = load_arch(folder)
    assert arch is None
    finding = findings[0]
    (name,) = replaced
    assert name[:5] in finding.file  # index, polic…, sanit…
    assert finding.file.startswith(str(folder))
    assert finding.path == path
    assert message in finding.message
    assert hint in finding.hint
    assert SALT not in repr(findings)


def test_every_mistake_is_found_once(tmp_path: Path) -> None:
    second = {**REFERENCE, "id": "b", "policy_path": "policies/b.policy.json"}
    folder = put_arch(
        tmp_path,
        index=arch_index(REFERENCE, second, second),
        policy={**ARCH_POLICY, "more": 1, "v": "1"},
        sanitizer={**ARCH_SANITIZER, "less": 1},
    )
    _, findings = load_arch(folder)
    assert [(Path(one.file).name, one.path) for one in findings] == [
        ("smoke_rr_v1.policy.json", "$.v"),
        ("smoke_rr_v1.policy.json", "$.more"),
        ("sanitize_none_v1.sanitize.json", "$.less"),
        ("b.policy.json", "$"),
        ("index.x07rr.json", "$.policies[2].id"),
    ]


def test_two_sanitizers_of_one_id(tmp_path: Path) -> None:
    second = {
        **REFERENCE,
        "id": "b",
        "policy_path": "policies/b.policy.json",
        "sanitize_path": "sanitizers/b.sanitize.json",
    }
    folder = put_arch(tmp_path, index=arch_index(REFERENCE, second))
    (folder / "policies" / "b.policy.json").write_text(
        json.dumps({**ARCH_POLICY, "id": "b"}), "utf-8"
    )
    other = {**ARCH_SANITIZER, "redact_headers": ["x-pin"]}
    (folder / "sanitizers" / "b.sanitize.json").write_text(json.dumps(other), "utf-8")
    found = _only(folder)
    assert found.place == f"{folder / 'sanitizers' / 'b.sanitize.json'} $.id"
    assert "a file with different content" in found.message


def test_folder_without_an_index(tmp_path: Path) -> None:
    found = _only(tmp_path)
    assert (found.file, found.message) == (
        str(tmp_path / "index.x07rr.json"),
        "there is no such file",
    )
    assert "arch/rr" in found.hint


@pytest.mark.parametrize(
    "path, reason",
    [
        ("/etc/passwd", "absolute"),
        ("arch/rr//etc/passwd", "absolute"),
        ("../outside.json", "'..'"),
        ("arch/rr/../../outside.json", "'..'"),
        ("arch/rr/", "empty"),
        ("policies//a.json", "empty segment"),
        ("./a.json", "'.'"),
        ("a\\b.json", "backslash"),
        ("a\0b.json", "NUL"),
        ("C:a.json", "drive letter"),
        (".x07_rr/a.json", ".x07_"),
        ("link.json", "symlink"),
        ("loop.json", "cannot be read"),
        ("policies", "regular file"),
        ("pipe", "regular file"),
    ],
)
@pytest.mark.parametrize("field", ["policy_path", "sanitize_path"])
def test_nothing_outside_the_folder_is_read(
    field: str, path: str, reason: str, tmp_path: Path
) -> None:
    folder = put_arch(tmp_path, index=arch_index({**REFERENCE, field: path}))
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(ARCH_POLICY), "utf-8")
    (folder / "link.json").symlink_to(outside)
    (folder / "loop.json").symlink_to("loop.json")
    os.mkfifo(folder / "pipe")
    assert reason in _only(folder).message


def test_import_joins_what_is_there(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "id": "z"}, None, worlds=["ci"])
    before = load_policy(tmp_path, "z")
    found = _imported(tmp_path, put_arch(tmp_path))
    assert [one["id"] for one in json.loads(found.index)["policies"]] == ["smoke_rr_v1", "z"]
    assert load_policy(tmp_path, "z") == before


def test_import_does_not_touch_the_defaults_of_an_index(tmp_path: Path) -> None:
    put_set(tmp_path, POLICY)
    index = tmp_path / ".reenact" / "index.json"
    raw = {**json.loads(index.read_bytes()), "defaults": {"modes": ["record"]}}
    index.write_text(json.dumps(raw), "utf-8")
    _imported(tmp_path, put_arch(tmp_path))
    assert load_policy(tmp_path).modes == ("record",)
    assert load_policy(tmp_path, "smoke_rr_v1").modes == ("replay",)


def _refused(root: Path, folder: Path) -> UsageError:
    arch, _ = load_arch(folder)
    assert arch is not None
    with pytest.raises(UsageError) as caught:
        import_arch(arch, root)
    assert caught.value.hint
    return caught.value


def test_taken_id_is_refused(tmp_path: Path) -> None:
    put_set(tmp_path, {**POLICY, "id": "smoke_rr_v1"})
    assert "smoke_rr_v1 already" in _refused(tmp_path, put_arch(tmp_path)).message


@pytest.mark.parametrize(
    "name", ["policies/smoke_rr_v1.policy.json", "sanitizers/sanitize_none_v1.sanitize.json"]
)
def test_file_that_is_there_is_refused(name: str, tmp_path: Path) -> None:
    put_set(tmp_path, POLICY)
    put(tmp_path, name, {**SANITIZER, "id": "sanitize_none_v1"})
    assert "is there already" in _refused(tmp_path, put_arch(tmp_path)).message


def test_sanitizer_of_an_earlier_import_is_kept(tmp_path: Path) -> None:
    _imported(tmp_path, put_arch(tmp_path))
    other = {**REFERENCE, "id": "other", "policy_path": "policies/other.policy.json"}
    folder = put_arch(tmp_path / "elsewhere", index=arch_index(other))
    (folder / "policies" / "other.policy.json").write_text(
        json.dumps({**ARCH_POLICY, "id": "other"}), "utf-8"
    )
    found = _imported(tmp_path, folder)
    assert found.kept == ("sanitizers/sanitize_none_v1.sanitize.json",)
    assert list(found.files) == ["policies/other.policy.json"]


def test_index_that_is_wrong_is_not_added_to(tmp_path: Path) -> None:
    put(tmp_path, "index.json", {"schemaVersion": "reenact.index@1", "polices": []})
    error = _refused(tmp_path, put_arch(tmp_path))
    assert isinstance(error, PolicyInvalid)
    assert error.place.startswith(".reenact/index.json")
