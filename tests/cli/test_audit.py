"""``reenact audit``: verified offline, from files and from a server that is not believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.audit.bundle import export_folder
from reenact.audit.log import parse_head
from tests.cli.conftest import Run
from tests.server.house import PASSWORD, House, running
from tests.unit.audit.samples import ONE, ORIGIN, START, TWO, Kept, a_log, edited, resigned

KEY = ONE.key.to_text()


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


def _exported(kept: Kept, folder: Path) -> Path:
    export_folder(folder, ORIGIN, kept.lines, kept.heads, kept.keys, START)
    return folder


def test_an_export_is_verified_against_a_key(run: Run, tmp_path: Path, config: Path) -> None:
    export = a_log(5).export(tmp_path / "export")
    ran = run("audit", "verify", export, "--key", KEY)
    assert ran.code == 0
    assert ran.out.startswith(f"{ORIGIN}: 5 records, 5 heads: verified\n")
    assert "  proven: " in ran.out
    assert (config / "audit-heads.json").exists()
    key = tmp_path / "key.pub"
    key.write_text(f"0 {KEY}\n", "utf-8")
    found = run("audit", "verify", export, "--key", key, "--json").json()
    assert (found["ok"], found["pinned"], found["seen"]) == (True, 5, "same")


def test_without_a_key_nothing_is_remembered(run: Run, tmp_path: Path, config: Path) -> None:
    export = a_log(5).export(tmp_path / "export")
    ran = run("audit", "verify", export)
    assert ran.code == 0
    assert "not proven: who signed it" in ran.out
    assert not config.exists()


def test_another_key_is_a_finding(run: Run, tmp_path: Path) -> None:
    export = a_log(5).export(tmp_path / "export")
    ran = run("audit", "verify", export, "--key", TWO.key.to_text())
    assert ran.code == 3
    assert "key.untrusted" in ran.out
    assert "NOT what was signed" in ran.out


def test_a_history_that_was_written_anew_is_found_by_the_head_that_was_seen(
    run: Run, tmp_path: Path
) -> None:
    kept = a_log(5)
    assert run("audit", "verify", kept.export(tmp_path / "a"), "--key", KEY).code == 0
    grown = a_log(8)
    found = run("audit", "verify", grown.export(tmp_path / "b"), "--key", KEY, "--json").json()
    assert (found["pinned"], found["seen"]) == (5, "grown")
    lines = [edited(kept.lines[0], reason="other"), *grown.lines[1:]]
    forged = _exported(resigned(grown, lines), tmp_path / "c")
    ran = run("audit", "verify", forged, "--key", KEY, "--json")
    assert ran.code == 3
    assert set(ran.json()["counts"]) == {"log.forked"}
    short = kept.export(tmp_path / "d")
    ran = run("audit", "verify", short, "--key", KEY)
    assert (ran.code, "log.truncated" in ran.out) == (3, True)


def test_a_head_from_before_may_be_given(run: Run, tmp_path: Path, config: Path) -> None:
    head = tmp_path / "head"
    head.write_text(a_log(8).heads[-1].to_text(), "utf-8")
    export = a_log(5).export(tmp_path / "export")
    ran = run("audit", "verify", export, "--key", KEY, "--head", head)
    assert (ran.code, "log.truncated" in ran.out) == (3, True)
    ran = run("audit", "verify", a_log(9).export(tmp_path / "b"), "--key", KEY, "--head", head)
    assert (ran.code, "not proven: that no records were removed" in ran.out) == (0, False)
    run("audit", "verify", export, "--key", KEY, "--forget")
    assert json.loads((config / "audit-heads.json").read_bytes())["heads"]


def test_a_record_is_proved_from_an_export_and_verified(run: Run, tmp_path: Path) -> None:
    export = a_log(7).export(tmp_path / "export")
    proof = tmp_path / "4.tlog-proof"
    ran = run("audit", "prove", 4, "--export", export, "-o", proof)
    assert (ran.code, ran.out) == (0, f"wrote {proof}: record 4 of 7\n")
    ran = run("audit", "verify", proof, "--key", KEY)
    assert ran.code == 0
    assert ran.out.startswith(f"{ORIGIN} has record 4, of 7: verified\n")
    assert run("audit", "verify", proof, "--key", KEY, "--json").json()["record"]["seq"] == 4
    assert run("audit", "verify", proof, "--key", TWO.key.to_text()).code == 3
    ran = run("audit", "verify", proof)
    assert (ran.code, "--key" in ran.hint) == (2, True)
    proof.write_text(proof.read_text("utf-8").replace("index 4", "index 5"), "utf-8")
    assert run("audit", "verify", proof, "--key", KEY).code == 3


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 2048])
def test_what_is_no_log_is_unreadable(content: bytes, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    ran = run("audit", "verify", path, "--json")
    assert (ran.code, ran.json()["error"]["code"]) == (3, "audit.invalid")
    assert run("audit", "verify", tmp_path / "nothing").code == 3
    assert run("audit", "verify", path, "--key", "not+a+key").code == 3


# With a server


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("tenant admin"))
        yield house


def test_the_servers_log_is_fetched_and_verified(house: House, run: Run) -> None:
    assert run("environment", "set", "staging", "non-production").code == 0
    first = run("audit", "verify", "--json").json()
    assert (first["ok"], first["seen"], first["pinned"]) == (True, "first", None)
    key = house.server.auditor.key("default").to_text()
    again = run("audit", "verify", "--key", key, "--json").json()
    assert (again["ok"], again["seen"], again["pinned"]) == (True, "grown", first["size"])


def test_records_heads_keys_proofs_and_exports(house: House, run: Run, tmp_path: Path) -> None:
    run("environment", "set", "staging", "non-production")
    (line,) = run("audit", "ls", "--action", "environment.changed", "--json").json_lines()
    assert (line["action"], line["subject"]["id"]) == ("environment.changed", "staging")
    heading, row = run("audit", "ls", "--action", "environment.changed").out.splitlines()
    assert heading.split()[:4] == ["seq", "when", "who", "action"]
    assert row.split()[0] == str(line["seq"])
    key, head = tmp_path / "key.pub", tmp_path / "head"
    assert run("audit", "key", "-o", key).code == 0
    assert run("audit", "head", "-o", head).code == 0
    assert parse_head(head.read_bytes()).size > line["seq"]
    assert run("audit", "head", "--json").json()["origin"] in run("audit", "head").out
    proof = tmp_path / "proof"
    assert run("audit", "prove", line["seq"], "-o", proof).code == 0
    assert run("audit", "verify", proof, "--key", key).code == 0
    export = tmp_path / "audit.tar"
    assert run("audit", "export", "-o", export).code == 0
    assert run("audit", "verify", export, "--key", key, "--head", head).code == 0
    ran = run("audit", "export", "-o", export)
    assert (ran.code, ran.hint) == (2, "choose a different file: -o FILE")
    listed = tmp_path / "records.jsonl"
    assert run("audit", "export", "--format", "jsonl", "-o", listed).code == 0
    assert json.loads(listed.read_bytes().splitlines()[0])


def test_audit_ls_prints_names_and_keeps_ids_in_json(
    house: House, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.user("ann@acme.example", "tenant admin")
    signed = house.client().post(
        "/api/v1/session", json={"email": "ann@acme.example", "password": PASSWORD}
    )
    own = {"X-CSRF-Token": signed.json()["csrfToken"], "Cookie": signed.headers["set-cookie"]}
    made = house.client(**own).post("/api/v1/users", json={"email": "bob@acme.example"})
    assert made.status_code == 201
    _, row = run("audit", "ls", "--action", "user.created", "--limit", 1).out.splitlines()
    assert "ann@acme.example" in row
    assert "user bob@acme.example" in row
    assert "usr_" not in row
    ran = run("audit", "ls", "--action", "user.created", "--limit", 1, "--json")
    (line,) = ran.json_lines()
    assert (line["actorName"], line["subjectName"]) == ("ann@acme.example", "bob@acme.example")
    assert line["actor"]["id"] == signed.json()["actor"]["id"]
    assert line["subject"]["id"] == made.json()["id"]


def test_whoever_may_not_read_it_is_refused(
    house: House, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.key("viewer"))
    target = tmp_path / "audit.tar"
    ran = run("audit", "export", "-o", target, "--json")
    assert ran.code == 4
    assert ran.json()["error"]["fields"]["problem"] == "permission_denied"
    assert list(tmp_path.glob("audit*")) == []
