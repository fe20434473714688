"""``reenact migrate``."""

from __future__ import annotations

from pathlib import Path

from reenact.store.verify import verify
from tests.cli.conftest import Run
from tests.cli.samples import everything_in, flip, record_old

SECRET = "hunter2-and-more"
SALT = b"0123456789abcdef\n"


def test_migrate(run: Run, tmp_path: Path) -> None:
    old, new = record_old(tmp_path / "old"), tmp_path / "new"
    refused = run("show", old)
    assert refused.code == 3
    assert refused.hint == "reenact migrate OLD NEW"
    before = everything_in(old)
    ran = run("migrate", old, new)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{new}: 1 event, now in format 1.0; {old} is unchanged\n"
    assert everything_in(old) == before
    assert verify(new).manifest.capture_id == "cap_old"


def test_migrate_json_and_refusals(run: Run, tmp_path: Path) -> None:
    old, new = record_old(tmp_path / "old"), tmp_path / "new"
    found = run("migrate", old, new, "--json").json()
    assert (found["path"], found["events"], found["format"]) == (str(new), 1, "1.0")
    assert run("migrate", old, new).code == 2  # there already is one
    again = run("migrate", new, tmp_path / "newer")
    assert (again.code, again.hint) == (2, "there is nothing to migrate")
    assert run("migrate", tmp_path / "none", tmp_path / "newer").code == 3
    flip(old / "events.jsonl", b"hello")
    assert run("migrate", old, tmp_path / "newer").code == 3


# Redaction
