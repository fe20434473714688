"""``reenact regress --from-server``: recordings that a real server has, got by who re-enacts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from tests.cli.conftest import Run, command
from tests.cli.remote import AGENT, ask, files_of, record
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, exchange, named, packed

TARGET = ("--target", "agentry:agent", "-q")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    (tmp_path / "agentry.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_CACHE", str(tmp_path / "cache"))
    with running(tmp_path / "data") as house:
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("replayer"))
        yield house


@pytest.fixture
def captures(house: House, run: Run, tmp_path: Path) -> list[str]:
    """The names of three that were pushed, in the order in which they were."""
    found = []
    for number in range(3):
        house.clock.move(60)
        pushed = run("push", record(tmp_path / f"runs/{number}", number), "--json").json()
        found.append(f"capture:{pushed['captureId']}")
    return found


def test_all_that_were_pushed_are_got_and_re_enacted(
    run: Run, captures: list[str], tmp_path: Path
) -> None:
    ran = run("regress", "--from-server", *TARGET, "-j", 2, "--journal", "j.jsonl")
    assert (ran.code, ran.out, ran.err) == (0, "", "reenact: 3 recordings: 3 ok\n")
    _, *lines = Path("j.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["recording"] for line in lines) == sorted(captures)
    assert len(files_of(tmp_path / "cache")) == 3
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_filters_and_names(run: Run, captures: list[str]) -> None:
    words = ("--json", "-q", "--target", "agentry:agent")
    newest = run("regress", "--from-server", "--limit", 1, *words).json()
    assert (newest["run"]["total"], newest["run"]["paths"]) == (1, ["server:captures"])
    one = run("regress", captures[1], "runs/0", *words).json()
    assert (one["counts"]["ok"], one["run"]["paths"]) == (2, [captures[1], "runs/0"])
    ran = run("regress", "--from-server", "--text", "nothing like it", *words)
    assert (ran.code, ran.json()["error"]["code"]) == (3, "recording.missing")


def test_names_are_stable_in_reports_baselines_and_parts(
    run: Run, captures: list[str], tmp_path: Path
) -> None:
    words = ("regress", "--from-server", "-q", "--target", "agentry:changed")
    reports = ("--html", "p.html", "--junit", "j.xml", "--report", "r.json")
    known = ("--baseline", "known.json", "--journal", "j.jsonl")
    assert run(*words, *known, "--update-baseline").code == 0
    found = json.loads(Path("known.json").read_bytes())["known"]
    assert list(found) == [captures[1]]
    ran = run(*words, *known, *reports)
    assert (ran.code, ran.err) == (0, "reenact: 3 recordings: 2 ok, 1 known\n")
    ran = run(*words, "-x", "-j", 1, *reports)
    assert ran.code == 1
    assert captures[1] in ran.out
    for name in ("p.html", "j.xml", "r.json", "j.jsonl", "known.json"):
        text = Path(name).read_text(encoding="utf-8")
        assert captures[1] in text
        assert str(tmp_path / "cache") not in text
    parts = [
        run(*words, "--json", "--shard", f"{part}/2").json()["run"]["total"] for part in (1, 2)
    ]
    assert sum(parts) == 3


def test_what_is_kept_is_used_again_and_got_again_when_it_is_damaged(
    run: Run, captures: list[str], house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("regress", captures[0], *TARGET)
    assert run(*words).code == 0
    (key,) = files_of(tmp_path / "cache")
    entry = tmp_path / "cache" / key
    before = entry.stat().st_ino
    assert run(*words).code == 0
    assert entry.stat().st_ino == before, "it was got twice"
    events = entry / "recording/events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"q0", b"q9"))
    assert run(*words).code == 0
    assert b"q9" not in events.read_bytes()
    with monkeypatch.context() as away:
        away.setenv("REENACT_SERVER", "http://127.0.0.1:9")
        assert run(*words).code == 0, "what is here needs no server"


def test_one_that_cannot_be_read_is_one_that_failed(
    run: Run, captures: list[str], house: House, tmp_path: Path
) -> None:
    (first, second, third) = sorted(
        (one for one in (tmp_path / "data").rglob("*") if one.is_file() and len(one.name) == 64),
        key=lambda one: one.stat().st_mtime,
    )
    second.write_bytes(b"not what was pushed")
    third.unlink()
    ran = run("regress", "--from-server", *TARGET, "--json", "--journal", "j.jsonl")
    assert ran.code == 3
    found = ran.json()
    assert found["counts"] == {
        "ok": 1, "diverged": 0, "failed": 0, "unreadable": 2, "timeout": 0, "known": 0,
    }  # fmt: skip
    told = {group["cause"]: group["recordings"] for group in found["groups"]}
    assert told == {"RecordingDamaged": [captures[1]], "RecordingMissing": [captures[2]]}
    assert first.exists()


def test_who_may_not_read_and_who_is_not_signed_in(
    run: Run, captures: list[str], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.agent_key())
    assert run("regress", "--from-server", *TARGET).code == 4
    ran = run("regress", captures[0], *TARGET, "--json", "--journal", "j.jsonl")
    (group,) = ran.json()["groups"]
    assert (ran.code, group["cause"]) == (3, "ServerRefused")
    assert group["first"]["away"]
    monkeypatch.setenv("REENACT_API_KEY", "rnk_user_" + "x" * 40)
    ran = run("regress", "--from-server", *TARGET)
    assert ran.code == 4
    assert "reenact login" in ran.hint
    monkeypatch.setenv("REENACT_API_KEY", house.key("replayer"))
    words = ("regress", captures[0], *TARGET, "--journal", "j.jsonl", "--resume")
    assert run(*words).err == "reenact: 1 recording: 1 ok\n", (
        "it was not done, so it is tried again"
    )


def test_a_server_that_is_away(
    run: Run, captures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_SERVER", "http://127.0.0.1:9")
    ran = run("regress", "--from-server", *TARGET)
    assert ran.code == 3
    assert "http://127.0.0.1:9 cannot be asked" in ran.err
    words = ("--baseline", "known.json", "--update-baseline")
    ran = run("regress", captures[0], "runs/0", *TARGET, "--json", *words)
    assert ran.code == 3, "what could not be got is not known"
    (group,) = ran.json()["groups"]
    assert (group["cause"], group["recordings"]) == ("ServerUnusable", [captures[0]])
    assert "asked from" in group["first"]["detail"]
    assert json.loads(Path("known.json").read_bytes())["known"] == {}


def test_a_command_is_run_for_each(run: Run, captures: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("from agentry import agent\nprint(agent('q1'))\n")
    ran = run("regress", captures[1], "-q", "--", sys.executable, "program.py")
    assert (ran.code, ran.err) == (0, "reenact: 1 recording: 1 ok\n")
    ran = run("regress", captures[0], "-q", "--", sys.executable, "program.py")
    assert ran.code == 1
    assert captures[0] in ran.out
    assert str(tmp_path / "cache") not in ran.out


def test_a_folder_that_cannot_keep_them(run: Run, captures: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run("regress", captures[0], *TARGET, "--json", "--cache", "file/below")
    (group,) = ran.json()["groups"]
    assert (ran.code, group["cause"], group["first"]["away"]) == (3, "SinkUnwritable", True)
    assert "--cache DIR" in group["first"]["detail"]


def test_the_key_is_nowhere(
    run: Run, captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, house: House
) -> None:
    key = house.key("replayer")
    monkeypatch.setenv("REENACT_API_KEY", key)
    reports = ("--html", "p.html", "--junit", "j.xml", "--report", "r.json", "--journal", "j.jsonl")
    ran = run("regress", "--from-server", "-q", "--target", "agentry:tells", *reports)
    assert ran.code == 1
    assert "RuntimeError: I know … and " in ran.out, "the program tells everything"
    assert key not in ran.out + ran.err
    for name in (*reports[1::2], *(str(one) for one in (tmp_path / "cache").rglob("*"))):
        if Path(name).is_file():
            assert key.encode() not in Path(name).read_bytes(), name


def test_nobody_waits_for_a_server_that_says_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = ("regress", "capture:cap_1", "--target", "agentry:agent", "-q", "--cache", "cache")
        environ = {
            "REENACT_SERVER": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "REENACT_API_KEY": "rnk_user_" + "x" * 40,
        }
        with subprocess.Popen(
            command(*words),
            cwd=tmp_path,
            env={**os.environ, **environ},
            stderr=subprocess.PIPE,
        ) as process:
            asking, _ = silent.accept()
            with asking:
                assert asking.recv(3) == b"GET"
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=50)
    assert process.returncode == 130
    assert b"interrupted: 1 recording not re-enacted" in said
    assert files_of(tmp_path / "cache") == []


@pytest.fixture
def exchanges(house: House, tmp_path: Path) -> None:
    """Two with a recording of their only call, and one without."""
    with reenact.session(capture=tmp_path / "calls", mode="record"):
        ask(5)
    blob = packed(tmp_path / "calls")
    agent = Puppet(house)
    agent.register()
    agent.ingest(
        exchange("ex-1", recording=named(blob)),
        exchange("ex-2", recording=named(blob), status="failed"),
        exchange("ex-3", not_replayable="clipped", recording=None),
        blobs=(blob,),
    )


def test_exchanges_are_given_their_start_payload(run: Run, exchanges: None) -> None:
    words = ("regress", "--from-server", "exchanges", "--target", "agentry:order", "-q", "--json")
    found = run(*words).json()
    assert (found["counts"]["ok"], found["run"]["total"]) == (2, 2)
    found = run(*words, "--status", "failed").json()
    assert (found["counts"]["ok"], found["run"]["total"]) == (1, 1)
    assert run("exchange", "ls", "--status", "completed", "--save", "fine").code == 0
    found = run(*words, "--saved", "fine").json()
    assert (found["counts"]["ok"], found["run"]["total"]) == (1, 1)


@pytest.mark.parametrize(
    "name, says",
    [("ex-3", "has no recording of its calls"), ("ex-9", "is not on the server")],
    ids=["unrecorded", "nowhere"],
)
def test_exchanges_that_cannot_be_got(run: Run, exchanges: None, name: str, says: str) -> None:
    ran = run("regress", f"exchange:{name}", "--target", "agentry:order", "-q")
    assert ran.code == 3
    assert f"exchange:{name} {says}" in ran.out
