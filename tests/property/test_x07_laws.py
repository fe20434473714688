"""Whatever a valid X07 folder says, what is imported from it is right, whole and without its salt."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reenact.policy.index import check_all, load_policy
from reenact.policy.redaction.names import Names
from reenact.policy.x07_files import load_arch
from reenact.policy.x07_importer import import_arch
from tests.unit.policy.arches import ARCH_POLICY, ARCH_SANITIZER, REFERENCE, arch_index, put_arch
from tests.unit.policy.sets import put

SALT = "5a17-in-a-file"
MODES = ["off", "record_v1", "replay_v1", "record_missing_v1", "rewrite_v1"]
WORLDS = "solve-pure solve-fs solve-rr solve-kv solve-full run-os run-os-sandboxed".split()

_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
_headers = st.lists(st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}", fullmatch=True), max_size=4)
_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def _some(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=5)


@st.composite
def _folders(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    policy_id, sanitizer_id = draw(_ids), draw(_ids)
    allowed = draw(_some(MODES))
    reference = {
        **REFERENCE,
        "id": policy_id,
        "sanitize_id": sanitizer_id,
        "worlds_allowed": draw(_some(WORLDS)),
        "kinds_allowed": draw(
            st.lists(_texts | st.sampled_from(["http", "file", "rr"]), max_size=4)
        ),
        "ops_allowed": draw(st.lists(_texts.filter(lambda text: not set("*?[") & set(text)))),
    }
    key: dict[str, Any] = {"query_sort": "lex_u8_v1", "body_hash": "sha256_v1"}
    key |= {"include_headers": draw(_headers), "ignore_headers": draw(_headers)}
    limits = st.integers(0, 2**53)
    policy = {
        **ARCH_POLICY,
        "id": policy_id,
        "v": draw(st.integers(1, 2**53)),
        "mode_default": draw(st.sampled_from(allowed or ["replay_v1"])),
        "match_mode": draw(st.sampled_from(["lookup_v1", "transcript_v1"])),
        "budgets": {name: draw(limits) for name in ARCH_POLICY["budgets"]},
        **draw(st.sampled_from([{}, {"http": {}}, {"http": {"key_v1": key}}])),
    }
    sanitizer = {
        **ARCH_SANITIZER,
        "id": sanitizer_id,
        "redact_headers": draw(_headers),
        "redact_token": draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
        "stable_pseudonym_salt": SALT,
    }
    index = arch_index(reference, defaults={"record_modes_allowed": allowed})
    return policy_id, {"index": index, "policy": policy, "sanitizer": sanitizer}


@given(_folders())
def test_imported_set_is_right(drawn: tuple[str, dict[str, Any]]) -> None:
    policy_id, files = drawn
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        arch, findings = load_arch(put_arch(root, **files))
        assert findings == []
        assert arch is not None
        found = import_arch(arch, root)
        for name, content in (found.files | {"index.json": found.index}).items():
            assert SALT.encode() not in content
            put(root, name, content)
        assert SALT not in repr(found)
        # A header that is compared and redacted is a contradiction of the folder's own, and is told.
        secret = Names(tuple(files["sanitizer"]["redact_headers"]), ())
        headers = files["policy"].get("http", {}).get("key_v1", {}).get("include_headers", ())
        told = [f"$.keyHeaders[{at}]" for at, one in enumerate(headers) if secret.secret(one)]
        assert [(one.severity, one.path) for one in check_all(root)] == [
            ("warning", path) for path in told
        ]
        pinned = load_policy(root, policy_id)
        assert list(pinned.policy.to_json()["budgets"].values()) == list(
            files["policy"]["budgets"].values()
        )
        assert len(pinned.modes or ()) == len(set(arch.index.modes))
