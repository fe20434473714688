"""``reenact redact``."""

from __future__ import annotations

import io
import os
import resource
import subprocess
from pathlib import Path

import pytest

from reenact.store.reader import open_recording
from reenact.store.verify import verify
from tests.cli.conftest import Run, command
from tests.cli.samples import everything_in, fetched, record

SECRET = "hunter2-and-more"
SALT = b"0123456789abcdef\n"


def _with_secret(path: Path) -> Path:
    """The secret stands in a text, in a list, in a header, and as the name of a field."""
    headers = [["Authorization", f"Bearer {SECRET}"], ["Accept", "text/plain"]]
    return record(
        path,
        [
            ("run_start", {"input": f"use {SECRET} here", "argv": ["a.py", SECRET]}),
            ("nondeterministic", fetched("fine", headers=headers)),
            ("run_end", {"status": "ok", "output": "nothing to see"}),
        ],
    )


@pytest.mark.parametrize("name", ["clean", "clean.jsonl"])
def test_redact_says_what_it_removed_but_never_the_value(
    name: str, run: Run, tmp_path: Path
) -> None:
    source, target = _with_secret(tmp_path / "run"), tmp_path / name
    before = everything_in(source)
    ran = run("redact", source, target, "--value", SECRET)
    assert (ran.code, ran.err) == (0, "")
    first, *rest = ran.out.splitlines()
    assert first == f"{target}: 3 values removed from 2 events of 3, profile default"
    assert any(line.split() == ["rule", "declared", "2"] for line in rest)
    assert "  event 1: $.input" in rest
    assert "  event 1: $.argv[1]" in rest
    assert "  event 2: $.request.headers[0][1]" in rest
    assert SECRET not in ran.out + ran.err
    assert SECRET.encode() not in everything_in(target)
    assert everything_in(source) == before
    assert verify(target).manifest.redaction.profile == "default"
    again = run("redact", target, tmp_path / "again", "--value", SECRET)
    assert "0 values removed from 0 events" in again.out


def test_redact_json(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "clean"
    ran = run("redact", _with_secret(tmp_path / "run"), target, "--value", SECRET, "--json")
    found = ran.json()
    assert SECRET not in ran.out
    assert found["path"] == str(target)
    assert found["removed"] == 3 == sum(found["byRule"].values())
    assert found["profile"] == "default"
    assert found["byEvent"] == [
        {"seq": 1, "paths": ["$.argv[1]", "$.input"]},
        {"seq": 2, "paths": ["$.request.headers[0][1]"]},
    ]


def test_name_of_a_field_can_be_the_secret(run: Run, tmp_path: Path) -> None:
    event = ("tool_result", {"callId": "c", "ok": True, "result": {SECRET: f"is {SECRET}"}})
    source = record(tmp_path / "run", [event])
    for words in ([], ["--json"]):
        target = tmp_path / f"clean{len(words)}"
        ran = run("redact", source, target, "--value", SECRET, *words)
        assert SECRET not in ran.out + ran.err
        assert SECRET.encode() not in everything_in(target)


def test_values_from_a_file_and_from_stdin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _with_secret(tmp_path / "run")
    (tmp_path / "values").write_bytes(f"something else\r\n\n{SECRET}\r\n".encode())
    run("redact", source, tmp_path / "one", "--value-from", tmp_path / "values")
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(SECRET.encode()), encoding="utf-8")
    )
    run("redact", source, tmp_path / "two", "--value-from", "-")
    for name in ("one", "two"):
        assert SECRET.encode() not in everything_in(tmp_path / name)


def test_salt_gives_equal_secrets_equal_names(run: Run, tmp_path: Path) -> None:
    source = _with_secret(tmp_path / "run")
    (tmp_path / "salt").write_bytes(SALT)
    options = ("--value", SECRET, "--salt-from", tmp_path / "salt")
    assert run("redact", source, tmp_path / "clean", *options).code == 0
    with open_recording(tmp_path / "clean") as found:
        data = found.at(1).data
    name = data["argv"][1]
    assert name.startswith("***REDACTED:")
    assert data["input"] == f"use {name} here"


def test_strict_profile(run: Run, tmp_path: Path) -> None:
    source = record(tmp_path / "run", [("run_start", {"input": "ask jane@example.org"})])
    assert "0 values" in run("redact", source, tmp_path / "one").out
    ran = run("redact", source, tmp_path / "two", "--profile", "strict")
    assert "1 value removed from 1 event of 1, profile strict" in ran.out


def test_redaction_that_makes_no_sense(run: Run, tmp_path: Path) -> None:
    source, target = _with_secret(tmp_path / "run"), tmp_path / "clean"
    (tmp_path / "short").write_bytes(b"salt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for words in (
        ["--value", "x"],
        ["--value-from", tmp_path / "none"],
        ["--value-from", tmp_path / "binary"],
        ["--salt-from", tmp_path / "none"],
        ["--salt-from", tmp_path / "short"],
    ):
        ran = run("redact", source, target, *words)
        assert (ran.code, ran.out) == (2, ""), words
        assert not target.exists()
    assert run("redact", tmp_path / "none", target).code == 3
    record(target)
    assert run("redact", source, target).code == 2
    assert SECRET not in run("redact", source, source, "--value", SECRET).err


def test_copy_that_does_not_fit_is_not_called_a_copy(tmp_path: Path) -> None:
    source = record(tmp_path / "run", 200)

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(
        command("redact", source, tmp_path / "clean"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        preexec_fn=small_files_only,
        # Python 3.11 would keep a bytecode file that the limit has cut short.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "the copy is incomplete" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hint: free disk space")
