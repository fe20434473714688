"""``import`` and ``export``, as a person uses them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reenact import rr
from reenact.cli.main import main
from reenact.cli.manage import convert
from reenact.interop.formats import FORMATS
from reenact.interop.rrbin import write as write_rrbin
from tests.cli.conftest import Run
from tests.cli.samples import CASSETTE
from tests.unit.interop.foreign_files import exchange, taken


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite with cassettes of two modules, and a file that is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("test_one/test_a.yaml", "test_two/TestX.test_b[1.5].yaml"):
        path = Path("cassettes", name)
        path.parent.mkdir(parents=True)
        path.write_text(CASSETTE % path.stem[-1], "utf-8")
    Path("cassettes/openapi.yaml").write_text("openapi: 3\n", "utf-8")
    return tmp_path / "cassettes"


def test_a_tree_is_migrated_and_the_originals_stay(run: Run, tree: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*.yaml")}
    done = run("import", "--vcr", "cassettes")
    assert done.code == 0
    assert done.out.splitlines() == [
        "cassettes/openapi.yaml: no recording, left alone",
        "cassettes/test_one/test_a.yaml -> cassettes/test_one/test_a.jsonl: 1 call, 1 value hidden",
        "cassettes/test_two/TestX.test_b[1.5].yaml -> cassettes/test_two/TestX.test_b[1.5].jsonl: "
        "1 call, 1 value hidden",
        "3 files: 2 imported, 1 skipped; 2 calls, 2 values hidden",
    ]
    assert "cassettes/test_one/test_a.yaml: lost 1 x metadata: metadata of the file\n" in done.err
    assert "in all: lost 2 x metadata: metadata of the file\n" in done.err
    assert {path: path.read_bytes() for path in tree.rglob("*.yaml")} == before
    assert "hunter2" not in (tree / "test_one" / "test_a.jsonl").read_text("utf-8")
    assert run("verify", "cassettes/test_one/test_a.jsonl").code == 0


def test_a_second_time_keeps_what_is_there(run: Run, tree: Path) -> None:
    run("import", "--vcr", "cassettes")
    tape = tree / "test_one" / "test_a.jsonl"
    before = tape.read_bytes()
    again = run("import", "--vcr", "cassettes", "--in-place")
    assert (again.code, "2 kept, 1 skipped" in again.out) == (0, True)
    assert run("import", "--vcr", "cassettes", "--overwrite").code == 0
    assert tape.read_bytes().splitlines()[0] == before.splitlines()[0]


def test_into_another_folder_with_json(run: Run, tree: Path) -> None:
    Path("cassettes/test_two/broken.yaml").write_text("a: [\n", "utf-8")
    Path("cassettes/old.yaml").write_text("- request: {}\n  response: {}\n", "utf-8")
    done = run("import", "--vcr", "cassettes", "-o", "tapes", "--json")
    assert done.code == 3
    found = {line["source"]: line for line in done.json_lines()}
    one = found["cassettes/test_one/test_a.yaml"]
    assert one["path"] == "tapes/test_one/test_a.jsonl"
    assert (one["status"], one["format"], one["calls"], one["hidden"]) == ("imported", "vcr", 1, 1)
    assert one["losses"] == [{"kind": "metadata", "count": 1, "what": "metadata of the file"}]
    broken = found["cassettes/test_two/broken.yaml"]
    assert broken["status"] == "failed"
    assert broken["error"]["fields"]["place"] == "cassettes/test_two/broken.yaml, line 2"
    assert found["cassettes/old.yaml"]["status"] == "failed"
    assert found["cassettes/openapi.yaml"]["status"] == "skipped"
    assert not (tree / "test_one" / "test_a.jsonl").exists()
    assert Path("tapes/test_one/test_a.jsonl").exists()


FILES = {
    "a.har": b'{"log": {"version": "1.2", "entries": []}}',
    "a.json": b'{"format_version": 1, "transactions": []}',
    "b.json": b'{"version": 1, "interactions": []}',
    "c.json": b'{"log": {"version": "1.2", "entries": []}}',
    "a.rrbin": write_rrbin([rr.Entry(kind="rr", op="get", key=b"k", resp=b"PONG")]).content,
    "a.mitm": b"",
    "a.yml": b"interactions: []\n",
}
KNOWN = ["har", "boruna", "vcr-json", "har", "rrbin", "mitmproxy", "vcr"]


@pytest.mark.parametrize("name,known", list(zip(FILES, KNOWN, strict=True)))
def test_a_file_is_known_by_its_name_and_contents(
    name: str, known: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    done = run("import", tmp_path / name, "-o", tmp_path / "t.jsonl", "--json")
    assert (done.code, done.json()["format"]) == (0, known)


def test_an_x07_cassette_there_and_back_is_the_same_to_the_byte(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.rrbin").write_bytes(FILES["a.rrbin"])
    assert run("import", tmp_path / "a.rrbin").code == 0
    assert run("export", tmp_path / "a.jsonl", tmp_path / "b.rrbin").code == 0
    assert (tmp_path / "b.rrbin").read_bytes() == FILES["a.rrbin"]


@pytest.mark.parametrize(
    "content,place",
    [
        (b"[" * 200_000, "line 1"),
        (b"\x00\x01\xff", "the document"),
        (b"version: 9\ninteractions: []\n", "field version"),
        (b"interactions:\n- {request: {}}\n", "interaction 1, field response"),
    ],
)
def test_a_hostile_file_is_exit_3_with_the_place(
    content: bytes, place: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    done = run("import", tmp_path / "a.yaml", "--json")
    assert done.code == 3
    assert place in done.json()["error"]["fields"]["place"]
    assert list(tmp_path.iterdir()) == [tmp_path / "a.yaml"]


@pytest.mark.parametrize(
    "words",
    [
        ("import",),
        ("import", "a", "--vcr", "b"),
        ("import", "a.yaml", "-o", "b", "--in-place"),
        ("import", "unknown.xyz"),
        ("export", "t.jsonl", "unknown.xyz"),
        ("export", "t.jsonl", "x.mitm"),
    ],
)
def test_misuse_is_said(words: tuple[str, ...], run: Run, tree: Path) -> None:
    Path("unknown.xyz").write_bytes(b"")
    taken([exchange()], Path("t.jsonl"))
    done = run(*words)
    assert (done.code, bool(done.hint)) == (2, True)


def test_nothing_there_is_said(run: Run, tmp_path: Path) -> None:
    assert run("import", tmp_path / "none.yaml").code == 3
    assert "no cassettes found" in run("import", "--vcr", tmp_path).out


def test_without_pyyaml_the_error_names_the_extra(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    done = run("import", "cassettes/test_one/test_a.yaml")
    assert (done.code, done.hint) == (2, "pip install 'reenact[yaml]'")


@pytest.mark.parametrize("name", ["x.har", "x.yaml", "x.rrbin"])
def test_exports_say_what_is_lost_and_replace_nothing_unasked(
    name: str, run: Run, tmp_path: Path
) -> None:
    taken([exchange(body=b"a"), exchange("POST", posted=b"b")], tmp_path / "t.jsonl")
    done = run("export", tmp_path / "t.jsonl", tmp_path / name, "--json")
    assert (done.code, done.json()["calls"]) == (0, 2)
    assert [loss["kind"] for loss in done.json()["losses"]] == [
        word.split(" x ")[1].split(":")[0] for word in done.err.splitlines()
    ]
    before = (tmp_path / name).read_bytes()
    assert run("export", tmp_path / "t.jsonl", tmp_path / name).code == 2
    assert run("export", tmp_path / "t.jsonl", tmp_path / name, "--overwrite").code == 0
    assert (tmp_path / name).read_bytes() == before


def test_an_export_to_stdout_is_the_file_alone(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    taken([exchange(body=b"a")], tmp_path / "t.jsonl")
    assert main(["export", str(tmp_path / "t.jsonl"), "-", "--format", "har"]) == 0
    assert len(json.loads(capfdbinary.readouterr().out)["log"]["entries"]) == 1


def test_the_command_line_knows_every_format() -> None:
    assert tuple(one.name for one in FORMATS) == convert.FORMATS
