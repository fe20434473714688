"""Texts that only look as if they had a secret in them, and those that look harmless and have one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

HARMLESS = [
    '{"token":"hello"}',
    '{"token": "Hello world"}',
    '{"token": 464}',
    '{"cookie":"chocolate chip"}',
    '{"cookies": "accept"}',
    '{"credentials":"include"}',
    '{"credentials": "same-origin"}',
    '{"access_key":"Alt+S"}',
    '{"accessKey": "Ctrl+Shift+P"}',
    '{"pwd":"/home/ada"}',
    '{"pwd": "C:\\\\Users\\\\ada"}',
    '{"pwd": "~/src/project-2"}',
    '{"auth": "basic"}',
    '{"auth": "none", "sid": 7}',
    '{"pass": 12, "fail": 3}',
    '{"pass": "yes"}',
    '{"pin": 13}',
    '{"pin": "top left"}',
    '{"low_pass": 440, "first_pass": 0.93}',
    '{"session_id": "123e4567-e89b-12d3-a456-426614174000"}',
    '{"account_sid": "AC' + "0123456789abcdef" * 2 + '"}',
    '{"mnemonic": "mov"}',
    '{"code": "invalid_request", "state": "NY"}',
    '{"code": "print(1)", "language": "python"}',
    '{"status_code": 404, "zip_code": "10115"}',
    "pip install sk-learn-1234567890ab",
    "SELECT id FROM users WHERE token = 'x'",
    "UPDATE t SET token = 'done' WHERE sid = 5",
    "def connect(host, password=None):",
    "def connect(host, password=None, token=None): ...",
    "login(user, password=password, token=token)",
    'token = "hello"',
    "tests: pass=12 fail=3",
    "<code>print(1)</code>",
    "<token>hello</token>",
    "Promise<Token> fetch(); useState<Password>(null); Vec<Secret> all;",
    "<password/><password></password><secret xsi:nil='true'/>",
    "https://host.example/search?code=de&page=2",
    "docker run -p 8080:80 -u 1000:1000 image",
    "mkdir -p /srv/app && tar -xpf a.tar && ls -a",
    "mysql -u root -p shop",
    "curl -u $USER:$PASSWORD https://host.example",
    "git push -u origin main",
    "http -a ada host.example",
    "http -a $USER:$PASSWORD host.example",
    "ls -a a:b; http --auth-type=digest host.example",
    r"net use Z: \\host\share * /user:ada",
    r"net use Z: \\host\share %PASSWORD% /user:ada",
    "net use Z: /delete",
    "the net use of energy, and net user growth of 12 percent",
    "net user ada /delete",
    "cmd /token:",
    "docker pull registry.example/user-auth:v1.2.3-rc1",
    '{"key": "token:user:12345"}',
    "Module_Names-of-2024-10.module.some_attribute_of_2024_10_20",
    "the compass and the bypass: a pass through the oauth author's inside",
    "4b1d and YC and EAAA and API-KEY and key-value and pat. of butter",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_is_left_alone(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.redact({"a": text, "b": text.encode()}).marks == ()
    if text.startswith("{"):
        assert redactor.redact(json.loads(text)).marks == ()


SECRETS = [
    '{"token":"hello1"}',
    '{"token":"aBcDeFgHiJ"}',
    '{"token":"qwrtpsdfgh"}',
    '{"pwd":"hunter"}',
    '{"pass":"sesame"}',
    '{"pw":"letmein"}',
    '{"db_pass":"sesame"}',
    '{"pin": 1234}',
    '{"pin": "0042"}',
    '{"cvv": 123}',
    '{"password":"hello"}',
    '{"secret":"hello"}',
    '{"auth": ["ada", "hunter"]}',
    '{"headers": {"token": "hello"}}',
    '{"query": {"auth": "sesame"}}',
    '{"mnemonic": "legal winner thank year wave sausage worth useful"}',
    '{"grant_type": "authorization_code", "code": "hello"}',
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_value_that_may_be_a_secret_is_removed(text: str) -> None:
    redactor = Redactor()
    assert redactor.suspects(text.encode())
    value = json.loads(text)
    assert PLACEHOLDER in redactor.text(text)
    assert PLACEHOLDER in json.dumps(redactor.redact(value).value)


@pytest.mark.parametrize(
    "text",
    [
        "https://host.example/?token=hello",
        "a=1&pin=123&b=2",
        "Cookie: chocolate",
        "tool --token hello",
        "https://app.example/cb?code=hello&state=xyz",
        "grant_type=authorization_code&code=hello",
        "auth=('ada', 'sesame')",
    ],
)
def test_a_word_that_is_sent_along_is_removed(text: str) -> None:
    redactor = Redactor()
    new = redactor.text(text)
    assert PLACEHOLDER in new
    assert "hello" not in new
    assert "sesame" not in new
    assert redactor.suspects(text.encode())
    assert redactor.text(new) == new


@pytest.mark.parametrize(
    "value",
    [
        [["token", "hello"]],
        [{"name": "token", "value": "hello"}],
        {"request_headers": {"X-Session": "hello", "cookie": "hello"}},
        {"params": {"token": "hello"}},
        [["code", "hello"], ["state", "xyz"]],
    ],
)
def test_a_word_in_a_header_or_parameter_is_removed(value: Any) -> None:
    new = Redactor().redact(value).value
    assert "hello" not in json.dumps(new)


def test_a_variable_with_an_ambiguous_name_does_not_blot_out_a_word() -> None:
    redactor = Redactor(environ={"GIT_AUTH": "enabled-here", "APP_AUTH": "Zq81kkWp"})
    assert redactor.text("it is enabled-here") == "it is enabled-here"
    assert redactor.text("it is Zq81kkWp") == f"it is {PLACEHOLDER}"
