"""``reenact tenant``, ``user``, ``key`` and ``environment``, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.server.auth.permissions import ROLES
from tests.cli.conftest import Run
from tests.server.house import House, running

ANN = "ann@acme.example"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("tenant admin", "platform admin"))
        yield house


def test_people_come_get_grants_and_go(house: House, run: Run) -> None:
    ran = run("user", "add", ANN, "--role", "viewer")
    assert ran.code == 0
    assert ran.out.startswith(f"{house.url}/invite?token=")
    assert "once" in ran.err
    again = run("user", "invite", ANN)
    assert again.out.startswith(f"{house.url}/invite?token=")
    assert again.out != ran.out
    ran = run("user", "grant", ANN, "replayer", "--environment", "staging", "--app", "shop")
    assert ran.out.startswith(f"{ANN} has replayer (shop in staging) [grt_")
    (user,) = (one for one in run("user", "ls", "--json").json_lines() if one["email"] == ANN)
    assert sorted(one["role"] for one in user["grants"]) == ["replayer", "viewer"]
    assert "replayer (shop in staging)" in run("user", "ls").out
    for grant in user["grants"]:
        assert run("user", "revoke", user["id"], grant["id"]).code == 0
    assert run("user", "rm", ANN).out == f"user {ANN} is removed\n"
    ran = run("user", "rm", ANN)
    assert (ran.code, ran.hint) == (2, "list the users: reenact user ls")


def test_roles_that_are_none_are_misuse(house: House, run: Run) -> None:
    run("user", "add", ANN)
    ran = run("user", "grant", ANN, "everything", "--json")
    assert ran.code == 2
    assert ran.json()["error"]["fields"]["problem"] == "invalid"


def test_keys_are_shown_once_and_revoked(house: House, run: Run) -> None:
    ran = run("key", "add", "shop-staging", "--app", "shop", "--environment", "staging")
    assert ran.code == 0
    key = ran.out.strip()
    assert key.startswith("rnk_agent_")
    assert key not in ran.err
    made = run("key", "add", "ci", "--kind", "user", "--role", "viewer", "--json").json()
    assert house.client(made["key"]).get("/api/v1/session").status_code == 200
    ran = run("key", "ls")
    assert key not in ran.out
    assert made["key"] not in ran.out
    assert made["id"] in ran.out
    assert run("key", "rm", made["id"]).out == f"key {made['id']} is revoked\n"
    assert house.client(made["key"]).get("/api/v1/session").status_code == 401


@pytest.mark.parametrize(
    "words, hint",
    [
        (["--kind", "user"], "--role viewer"),
        ([], "--app APP --environment NAME"),
        (["--app", "a", "--environment", "e", "--role", "viewer"], "--app APP --environment NAME"),
    ],
)
def test_keys_that_make_no_sense_are_not_asked_for(
    words: list[str], hint: str, house: House, run: Run
) -> None:
    ran = run("key", "add", "x", *words)
    assert (ran.code, ran.hint) == (2, hint)


def test_environments(house: House, run: Run) -> None:
    assert run("environment", "set", "staging", "non-production").code == 0
    (line,) = run("environment", "ls", "--json").json_lines()
    assert line == {"name": "staging", "kind": "non-production"}
    assert run("environment", "set", "staging", "sometimes").code == 2


def test_tenants(house: House, run: Run) -> None:
    made = run("tenant", "add", "other", "--admin", "boss@other.example", "--tier", "mid", "--json")
    tenant = made.json()
    assert tenant["admin"]["link"].startswith(f"{house.url}/invite?token=")
    ran = run("tenant", "set", tenant["id"], "--tier", "business", "--dedicated", "yes")
    assert ran.code == 0
    rows = {one["id"]: one for one in run("tenant", "ls", "--json").json_lines()}
    assert (rows[tenant["id"]]["tier"], rows[tenant["id"]]["dedicated"]) == ("business", True)
    assert "business" in run("tenant", "ls").out
    ran = run("tenant", "set", tenant["id"])
    assert (ran.code, ran.hint) == (2, "--tier TIER, --dedicated yes|no")


def test_tenant_set_finds_a_tenant_by_its_name(house: House, run: Run) -> None:
    made = run("tenant", "add", "acme corp", "--admin", "boss@acme.example", "--json").json()
    assert run("tenant", "set", "acme corp", "--tier", "high").code == 0
    rows = {one["id"]: one for one in run("tenant", "ls", "--json").json_lines()}
    assert rows[made["id"]]["tier"] == "high"
    ran = run("tenant", "set", "acme", "--tier", "high")
    assert (ran.code, ran.hint) == (2, "list the tenants: reenact tenant ls")
    again = run("tenant", "add", "acme corp", "--admin", "boss@acme.example")
    assert (again.code, again.hint) == (2, "choose another name")


def test_user_add_with_an_unknown_role_leaves_no_user_behind(house: House, run: Run) -> None:
    ran = run("user", "add", ANN, "--role", "viewer", "--role", "owner")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown role or permission 'owner'" in ran.err
    assert ran.hint.startswith("roles: viewer, replayer, production replayer, tenant admin,")
    assert "replay:live" in ran.hint
    assert ANN not in run("user", "ls").out
    assert not house.records("user.created")
    assert run("user", "add", ANN, "--role", "viewer", "--role", "replay:live").code == 0
    (user,) = (one for one in run("user", "ls", "--json").json_lines() if one["email"] == ANN)
    assert sorted(one["role"] for one in user["grants"]) == ["replay:live", "viewer"]
    again = run("user", "add", ANN, "--role", "replayer")
    assert (again.code, again.out) == (2, "")
    (same,) = (one for one in run("user", "ls", "--json").json_lines() if one["email"] == ANN)
    assert same == user


@pytest.mark.parametrize("command", [("user", "add"), ("user", "grant"), ("key", "add")])
def test_help_lists_the_roles(command: tuple[str, str], run: Run) -> None:
    words = " ".join(run(*command, "--help").out.split())
    assert all(role in words for role in ROLES)


def test_who_is_no_administrator_is_told_what_is_missing(
    house: House, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.key("viewer"))
    for words in (["user", "ls"], ["key", "ls"], ["tenant", "ls"]):
        ran = run(*words)
        assert (ran.code, ran.out) == (4, "")
        assert "admin" in ran.err


def test_what_is_not_named_stays_as_it_is(house: House, run: Run) -> None:
    assert run("retention", "show").out == (
        "exchanges   for ever\nrecordings  for ever\ncaptures    for ever\n"
    )
    ran = run("retention", "set", "--exchanges", "90", "--recordings", "1")
    assert ran.code == 0
    assert ran.out == "exchanges   90 days\nrecordings  1 day\ncaptures    for ever\n"
    assert "does not come back" in ran.err
    ran = run("retention", "set", "--captures", "365", "--recordings", "0", "--json")
    assert ran.json() == {"exchanges": 90, "recordings": 0, "captures": 365}
    assert run("retention", "show", "--json").json() == ran.json()
    records = [one["details"] for one in house.records("retention.changed")]
    assert records[-1] == {"exchanges": "90", "recordings": "0", "captures": "365"}


@pytest.mark.usefixtures("house")
def test_what_is_kept_for_ever_frightens_nobody(run: Run) -> None:
    ran = run("retention", "set", "--exchanges", "0")
    assert (ran.code, ran.err) == (0, "")


def test_what_makes_no_sense_is_told(house: House, run: Run) -> None:
    ran = run("retention", "set")
    assert ran.code == 2
    assert ran.hint == "--exchanges DAYS, --recordings DAYS, --captures DAYS"
    for wrong in ("-1", "soon", "1.5", "36501"):
        assert run("retention", "set", f"--exchanges={wrong}").code == 2, wrong
    assert house.records("retention.changed") == []


def test_only_administrators_say_how_long(
    house: House, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.key("viewer"))
    for command in (["show"], ["set", "--exchanges", "1"]):
        ran = run("retention", *command)
        assert ran.code == 4
        assert "tenant:admin" in ran.err
