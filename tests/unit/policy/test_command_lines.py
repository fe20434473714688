"""Credentials that only the program before them gives away."""

from __future__ import annotations

import json
import shlex

import orjson
import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

# With the secret as XX.
COMMANDS = [
    "curl -u ada:XX https://host.example",
    "curl -uada:XX https://host.example",
    "curl -sSu ada:XX https://host.example",
    "curl --user ada:XX https://host.example",
    "curl --user=ada:XX https://host.example",
    "/usr/bin/curl -s --proxy-user ada:XX https://host.example",
    "sudo curl -u ada:XX https://host.example",
    "mysql -u root -pXX shop",
    "mysqldump -pXX shop",
    "mariadb -h host -pXX",
    "mysql --password=XX shop",
    "mysql --password XX shop",
    "PGPASSWORD=XX psql -h host",
    "MYSQL_PWD=XX mysql",
    "sshpass -p XX ssh host",
    "sshpass -pXX ssh host",
    "docker login -u ada -p XX registry.example",
    "docker login --password XX registry.example",
    "redis-cli -h host -a XX ping",
    "redis-cli --pass XX ping",
    "REDISCLI_AUTH=XX redis-cli ping",
    "mongosh -u ada -p XX host",
    "ldapsearch -D cn=ada -w XX",
    "sqlcmd -S host -U sa -P XX",
    "unzip -P XX a.zip",
    "7z x -pXX a.7z",
    "keytool -list -storepass XX",
    "openssl rsa -passin pass:XX -in key.pem",
    "smbclient -U ada%XX //host/share",
    "docker exec db mysql -pXX shop",
    "http -a ada:XX host.example",
    "https -va ada:XX POST host.example a=b",
    "xh --auth=ada:XX host.example",
    "http -A bearer -a XX0123456789 host.example",
    "curl -H X-Auth-Token:XX https://host.example",
    "http host.example x-api-key:XX",
    "psexec -u ada -p XX cmd",
    "cmdkey /add:host /user:ada /pass:XX",
]
SECRET = "hunter2Zq"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("engine", ["hyperscan", "python"])
def test_a_credential_in_a_command_is_removed(command: str, engine: str) -> None:
    redactor = Redactor(engine=engine)  # type: ignore[arg-type]
    text = command.replace("XX", SECRET)
    words = shlex.split(text)
    values = [
        text,
        f"$ {text}\nand then",
        words,
        json.dumps({"command": text}),
        json.dumps({"argv": words}),
        repr(words),
        f"first\\\n  {text}",
    ]
    for value in values:
        assert redactor.suspects(orjson.dumps({"a": value}))
        new = redactor.redact({"a": value}).value["a"]
        assert SECRET not in repr(new)
        assert PLACEHOLDER in repr(new)
        assert redactor.redact({"a": new}).marks == ()
        if isinstance(value, list):
            assert len(new) == len(value)


# Lines for a shell of Windows, in which a backslash is a backslash.
WINDOWS_COMMANDS = [
    r"net use Z: \\host\share XX /user:ada",
    r"net use \\host\share /user:domain\ada XX",
    r"NET USE * \\files\nas XX /USER:ada /persistent:yes",
    r"C:\Windows\System32\net.exe use //host/share XX",
    r"net user ada XX /add",
    r"wmic /user:ada /password:XX process list",
]


@pytest.mark.parametrize("command", WINDOWS_COMMANDS)
@pytest.mark.parametrize("engine", ["hyperscan", "python"])
def test_net_use_password_without_a_flag_is_removed(command: str, engine: str) -> None:
    redactor = Redactor(engine=engine)  # type: ignore[arg-type]
    text = command.replace("XX", SECRET)
    words = text.split()
    values = [
        text,
        f"> {text}\nThe command completed successfully.",
        words,
        json.dumps({"command": text}),
        json.dumps(json.dumps({"command": text})),
        json.dumps({"argv": words}),
        repr(words),
        f"cd x && {text}",
    ]
    for value in values:
        assert redactor.suspects(orjson.dumps({"a": value}))
        new = redactor.redact({"a": value}).value["a"]
        assert SECRET not in repr(new)
        assert PLACEHOLDER in repr(new)
        assert redactor.redact({"a": new}).marks == ()
    assert redactor.text(text) == text.replace(SECRET, PLACEHOLDER)


def test_net_use_password_in_quotes_is_removed() -> None:
    line = r'net use \\host\share "hun ter2" /user:ada'
    assert Redactor().text(line) == line.replace("hun ter2", PLACEHOLDER)


def test_the_rest_of_the_command_stays() -> None:
    redactor = Redactor()
    line = "curl -s -u 'ada:hun ter2' -H 'Accept: */*' https://host.example/a?b=c | jq .x"
    assert redactor.text(line) == line.replace("ada:hun ter2", PLACEHOLDER)
    words = ["mysql", "-u", "root", "-phunter2", "shop"]
    assert redactor.redact(words).value == ["mysql", "-u", "root", f"-p{PLACEHOLDER}", "shop"]


@pytest.mark.parametrize("cut", range(1, 30, 2))
def test_a_command_that_is_cut_over_chunks(cut: int) -> None:
    text = f"$ curl -u ada:{SECRET} https://host.example\n"
    new = Redactor().redact({"chunks": [text[:cut], text[cut:]]}).value["chunks"]
    assert "".join(new) == f"$ curl -u {PLACEHOLDER} https://host.example\n"


@pytest.mark.parametrize(
    "text", ["curl " * 50_000, "curl -u " * 30_000, "mysql -p'" * 20_000, "net use '" * 5_000]
)
def test_hostile_commands_end(text: str) -> None:
    assert isinstance(Redactor().text(text), str)
