"""``reenact login`` and ``logout``: a key of one's own, kept where nobody else can read it."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.cli._client import find_credentials, login_path
from reenact.errors import UsageError
from tests.cli.conftest import Ran, Run
from tests.server.house import PASSWORD, House, running

MAIL = "ann@acme.example"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(folder))
    for name in ("REENACT_SERVER", "REENACT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def house(tmp_path: Path, config: Path) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        yield house


@pytest.fixture
def sign_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*words: str | Path | int, password: str = PASSWORD) -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return run("login", *words, "--password-stdin")

    return call


def test_the_set_up_link_makes_the_first_account(
    house: House, sign_in: Run, run: Run, config: Path
) -> None:
    link = f"{house.url}/setup?token={house.setup_token}"
    ran = sign_in(link, "--email", MAIL)
    assert (ran.code, ran.err) == (0, "")
    kept = config / "login.json"
    assert ran.out == f"signed in to {house.url} as {MAIL}; the key is in {kept}\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    (user,) = run("user", "ls", "--json").json_lines()
    assert user["email"] == MAIL
    ran = sign_in(link, "--email", "other@acme.example")
    assert (ran.code, ran.out) == (4, "")
    assert PASSWORD not in ran.err


def test_a_password_signs_in_and_logout_revokes_the_key(
    house: House, sign_in: Run, run: Run, config: Path
) -> None:
    house.user(MAIL, "tenant admin")
    found = sign_in(house.url, "--email", MAIL, "--json").json()
    assert (found["server"], found["who"]) == (house.url, MAIL)
    key = json.loads((config / "login.json").read_bytes())["key"]
    (row,) = run("key", "ls", "--json").json_lines()
    assert (row["id"], row["name"]) == (found["keyId"], "command line")
    ran = run("logout")
    assert ran.out == f"signed out of {house.url}: the key is revoked\n"
    assert not (config / "login.json").exists()
    assert house.client(key).get("/api/v1/session").status_code == 401
    assert run("logout", "--json").json() == {"signedOut": False, "revoked": False}


def test_an_invitation_sets_the_password(house: House, sign_in: Run, run: Run) -> None:
    house.user("boss@acme.example", "tenant admin")
    sign_in(house.url, "--email", "boss@acme.example")
    link = run("user", "add", MAIL, "--role", "viewer", "--json").json()["link"]
    ran = sign_in(link, "--json", password=f"{PASSWORD}-of-ann")
    assert ran.json()["who"] == MAIL
    assert run("exchange", "ls").code == 0
    assert run("user", "ls").code == 4


def test_a_wrong_password_is_refused_and_nothing_is_kept(
    house: House, sign_in: Run, config: Path
) -> None:
    house.user(MAIL, "viewer")
    ran = sign_in(house.url, "--email", MAIL, "--json", password="wrong")
    assert ran.code == 4
    assert ran.json()["error"]["fields"]["problem"] == "credentials_wrong"
    assert not (config / "login.json").exists()


def test_a_session_is_left_behind_by_nobody(house: House, sign_in: Run) -> None:
    house.user(MAIL, "viewer")
    sign_in(house.url, "--email", MAIL)
    actions = [one["action"] for one in house.records()]
    assert actions.count("session.opened") == actions.count("session.closed") == 1


def test_without_a_terminal_somebody_has_to_say_who(config: Path, run: Run) -> None:
    ran = run("login", "http://127.0.0.1:9", "--password-stdin")
    assert (ran.code, ran.hint) == (2, "--email EMAIL --password-stdin")
    ran = run("login", "http://127.0.0.1:9", "--email", MAIL)
    assert (ran.code, ran.hint) == (2, "--password-stdin")
    ran = run("login")
    assert (ran.code, ran.hint) == (2, "reenact login https://reenact.example")


def test_a_password_is_not_sent_in_plain_text_over_a_network(config: Path, sign_in: Run) -> None:
    ran = sign_in("http://reenact.example", "--email", MAIL)
    assert (ran.code, ran.hint) == (2, "use https://")


def test_a_file_that_others_can_read_is_not_used(
    house: House, sign_in: Run, run: Run, config: Path
) -> None:
    house.user(MAIL, "viewer")
    sign_in(house.url, "--email", MAIL)
    kept = config / "login.json"
    kept.chmod(0o644)
    ran = run("exchange", "ls")
    assert ran.code == 2
    assert ran.hint.startswith(f"chmod 600 {kept}")
    kept.chmod(0o600)
    kept.write_text("{", "utf-8")
    assert run("exchange", "ls").hint == "sign in again: reenact login URL"


def _kept(config: Path, server: str) -> None:
    config.mkdir(mode=0o700)
    kept = {"format": "reenact-login/1", "server": server, "key": "k" * 20}
    path = login_path({"REENACT_CONFIG_DIR": str(config)})
    path.write_text(json.dumps(kept), "utf-8")
    path.chmod(0o600)


def test_the_environment_comes_first_and_no_server_gets_the_key_of_another(config: Path) -> None:
    environ = {"REENACT_CONFIG_DIR": str(config)}
    with pytest.raises(UsageError, match="no server is specified"):
        find_credentials(environ)
    _kept(config, "https://one.example")
    address, key = find_credentials(environ)
    assert (address.host, key.reveal()) == ("one.example", "k" * 20)
    with pytest.raises(UsageError, match="no key is set for the server"):
        find_credentials({**environ, "REENACT_SERVER": "https://two.example"})
    address, key = find_credentials({**environ, "REENACT_API_KEY": "other-key"})
    assert (address.host, key.reveal()) == ("one.example", "other-key")
    both = {**environ, "REENACT_SERVER": "https://two.example", "REENACT_API_KEY": "other-key"}
    address, key = find_credentials(both)
    assert (address.host, key.reveal()) == ("two.example", "other-key")
    assert "k" * 20 not in repr(key)
    with pytest.raises(UsageError, match="API key"):
        find_credentials({**both, "REENACT_API_KEY": "with a space"})
