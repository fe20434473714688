"""How commands about recordings look: one snapshot each, of recordings that are always the same.

``SNAPSHOTS=write`` writes them anew; look at them as somebody would who has never seen them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.store.sign import new_key
from tests.cli.conftest import Run
from tests.cli.samples import CASSETTE, HOSTILE, flip, record_old, record_timed
from tests.cli.transcripts import Look, look_with
from tests.snapshots import Snapshot
from tests.unit.store.samples import NOW, draft, start_sink


@pytest.fixture
def look(run: Run, snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """In an empty folder, at a screen of 100 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("REENACT_ROOT", raising=False)
    (tmp_path / ".reenact").mkdir()
    return look_with(run, snapshot)


def _unfinished(path: Path) -> Path:
    """As a kill leaves it, in the middle of a line."""
    record_timed(path)
    (path / "manifest.json").unlink()
    with (path / "events.jsonl").open("ab") as log:
        log.write(b'{"version":1,"captu')
    return path


def _secretive(path: Path) -> Path:
    sink = start_sink(path)
    headers = [["authorization", "Bearer abcdefghijklmnop"], ["accept", "*/*"]]
    request = {"method": "POST", "url": "https://a.example/?api_key=k-123456", "headers": headers}
    sink.append(
        draft(
            "nondeterministic",
            {"source": "network", "key": "k", "valueHash": "v", "request": request},
        )
    )
    sink.append(draft("run_end", {"status": "ok", "output": "Anna lives in Bern"}, ts=NOW + 5))
    sink.finalize()
    return path


def test_show(look: Look) -> None:
    record_timed(Path("run"))
    assert look(
        "show",
        "show run",
        "show run --lane 0.2",
        "show run 9",
        "show run --type tool_cal",
        "show run 99",
        "show nowhere",
        "show last",
        changing={str(Path.cwd()): "FOLDER"},
    ) == [0, 0, 0, 0, 2, 3, 3]


def test_show_of_odd_recordings(look: Look) -> None:
    start_sink(Path("empty")).finalize()
    _unfinished(Path("killed"))
    record_old(Path("old"))
    sink = start_sink(Path("hostile"))
    sink.append(draft("run_start", {"input": HOSTILE}))
    sink.finalize()
    assert look("show-odd", "show empty", "show killed", "show old", "show hostile") == [0, 3, 3, 0]


def test_stats(look: Look) -> None:
    record_timed(Path("run"))
    start_sink(Path("empty")).finalize()
    assert look("stats", "stats run", "stats empty") == [0, 0]


def test_verify(look: Look) -> None:
    for name in ("run", "flipped", "more", "less"):
        record_timed(Path(name))
    flip(Path("flipped/events.jsonl"), b"small-1")
    Path("more/notes.txt").write_text("what is this?", encoding="utf-8")
    Path("less/events.jsonl").unlink()
    _unfinished(Path("killed"))
    assert look(
        "verify", *(f"verify {name}" for name in ("run", "flipped", "more", "less", "killed"))
    ) == [0, 3, 3, 3, 3]


def test_recover(look: Look) -> None:
    _unfinished(Path("run"))
    assert look("recover", "recover run", "recover run", "verify run") == [0, 0, 0]


def test_sign(look: Look) -> None:
    record_timed(Path("run"))
    new_key(Path("other"))
    assert look(
        "sign",
        "sign --new-key release.key",
        "sign run --key release.key",
        "verify run --key release.key.pub",
        "verify run --key other.pub",
    ) == [0, 0, 0, 3]


def test_migrate(look: Look) -> None:
    record_old(Path("old"))
    assert look("migrate", "verify old", "migrate old new") == [3, 0]


def test_redact(look: Look) -> None:
    _secretive(Path("run"))
    assert look("redact", "redact run clean --value Anna", "show clean 1") == [0, 0]


def test_pack(look: Look, run: Run) -> None:
    record_timed(Path("run"))
    ran = run("pack", "run", "before.reenact")
    (length,) = re.findall(r"[\d.]+ (?:B|KiB)", ran.out)  # as the compressor likes
    assert look(
        "pack",
        "pack run",
        "show run.reenact",
        "unpack run.reenact copy",
        "unpack run.reenact copy",
        changing={length: "SIZE"},
    ) == [0, 2, 0, 2]


def test_view(look: Look, run: Run) -> None:
    record_timed(Path("run"))
    Path("text.json").write_text("no report", encoding="utf-8")
    (length,) = re.findall(r"[\d.]+ KiB", run("view", "run", "-o", "before.html").err)
    assert look(
        "view",
        "view run",
        "view run --report text.json",
        "view nowhere",
        changing={length: "SIZE"},
    ) == [0, 2, 3]


def test_import_and_export(look: Look) -> None:
    folder = Path("cassettes/test_one")
    folder.mkdir(parents=True)
    (folder / "test_a.yaml").write_text(CASSETTE % "a", encoding="utf-8")
    (folder / "test_b.yaml").write_text(CASSETTE % "b", encoding="utf-8")
    Path("cassettes/openapi.yaml").write_text("openapi: 3\n", encoding="utf-8")
    tape = "cassettes/test_one/test_a.jsonl"
    assert look(
        "import-export",
        "import --vcr cassettes",
        "import --vcr cassettes",
        f"export {tape} a.har",
        f"export {tape} a.har",
        f"export {tape} a.txt",
    ) == [0, 0, 0, 2, 2]


def test_misuse(look: Look) -> None:
    assert look("misuse", "show", "shwo run", "show run --lain 0", "verify") == [2, 2, 2, 2]
