"""How recordings are named on the command line: by their path, or ``last``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.samples import begin, record, record_run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two runs, in a folder below which we are."""
    runs = tmp_path / ".reenact/runs"
    runs.mkdir(parents=True)
    record(runs / "2026-01-01", 2)
    record_run(runs / "2026-01-02")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("REENACT_ROOT", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("show", "last"),
        ("show", "last", "--timeline"),
        ("show", "last", "--follow"),
        ("stats", "last"),
        ("verify", "last"),
        ("view", "last", "-o", "page.html"),
        ("diff", "last", "last"),
        ("redact", "last", "copy"),
        ("pack", "last", "run.reenact"),
        ("export", "last", "run.har"),
        ("recover", "last"),
    ],
    ids=" ".join,
)
def test_last_is_the_last_run(words: tuple[str, ...], run: Run, project: Path) -> None:
    named = project / ".reenact/runs/2026-01-02"
    ran = run(*words, "--json")
    assert ran.code == 0
    # What is written is written anew.
    again = [str(named) if word == "last" else word.replace("copy", "copy2") for word in words]
    overwrite = ["--overwrite"] if words[0] == "export" else []
    if words[0] == "pack":
        (project / "below/run.reenact").unlink()
    meant = run(*again, "--json", *overwrite)
    assert meant.code == 0
    assert _named_alike(ran.out) == _named_alike(meant.out) != ""


def _named_alike(text: str) -> str:
    here = str(Path.cwd().parent / ".reenact/runs/2026-01-02")
    return text.replace(here, "last").replace("copy2", "copy")


def test_last_can_be_signed_and_recovered(run: Run, project: Path) -> None:
    assert run("sign", "--new-key", "key").code == 0
    assert run("sign", "last", "--key", "key").code == 0
    assert run("verify", "last", "--key", "key.pub").code == 0
    begin(project / ".reenact/runs/2026-01-03").add("run_start", {"input": "x"})
    assert run("show", "last").code == 3


def test_a_folder_of_that_name_is_named_otherwise(run: Run, project: Path) -> None:
    record(Path("last"), 7)
    assert len(run("show", "./last", "--json").json_lines()) == 7
    assert len(run("show", "last", "--json").json_lines()) == 11


def test_there_is_no_last_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".reenact").mkdir()
    for name in ("show", "stats", "verify", "view", "pack"):
        ran = run(name, "last")
        assert ran.code == 3
        assert "no run found in " in ran.err
        assert ran.hint == "create one: reenact run -- CMD …"
