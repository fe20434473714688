"""Secrets in text that a name gives away. ``X`` stands for the secret in the table."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

SECRET = "hunter2-Zq"

# Text with the secret as X, in every way of writing a name before it.
WRITTEN = {
    "json": '{"password": "X", "user": "me"}',
    "json, odd blanks": '{ "password"\t:\n   "X" }',
    "json, compact": '{"a":{"b":[{"apiKey":"X"}]},"z":0}',
    "json, cut off": '{"a": 1, "password": "X',
    "ndjson": '{"a":1}\n{"token":"X"}\n{"b":2}\n',
    "sse": 'event: x\ndata: {"access_token":"X"}\n\ndata: [DONE]\n\n',
    "json in json": '{"arguments": "{\\"api_key\\": \\"X\\", \\"n\\": 1}"}',
    "json in json in json": '{"a": "{\\"b\\": \\"{\\\\\\"password\\\\\\": \\\\\\"X\\\\\\"}\\"}"}',
    "json with hex quotes": '{"a":"{\\u0022password\\u0022:\\u0022X\\u0022}"}',
    "json with a hex name": '{"p\\u0061ssword":"X"}',
    "list under a name": '{"secrets": ["X", "X"]}',
    "pairs": '[["Accept", "*/*"], ["Authorization", "X"]]',
    "named value": '{"name": "X-Api-Key", "value": "X"}',
    "argument list": '["tool", "--api-key", "X", "--verbose"]',
    "repr": "{'password': 'X', 'n': 1}",
    "repr of pairs": "[('authorization', 'X')]",
    "repr of bytes": "[(b'authorization', b'X')]",
    "ruby": "{'password' => 'X'}",
    "query": "https://host/path?a=1&access_token=X&b=2",
    "fragment": "https://host/cb#state=1&id_token=X",
    "form": "user=me&password=X",
    "form, bracketed": "client[id]=1&client[secret]=X&z=1",
    "form, bracketed and encoded": "client%5Bid%5D=1&client%5Bsecret%5D=X&z=1",
    "query in a query": "https://a/?next=https%3A%2F%2Fb%2F%3Ftoken%3DX&z=1",
    "json in a query": "https://a/?q=%7B%22token%22%3A%22X%22%7D&z=1",
    "environment": "PATH=/bin\nOPENAI_API_KEY=X\nHOME=/",
    "environment, quoted": 'export GITHUB_TOKEN="X"; run',
    "toml": 'api_key = "X"',
    "yaml": "user: me\napi_key: X\n",
    "go": 'password := "X"',
    "flag": "tool --api-key X --verbose",
    "flag with equals": "tool --token=X --verbose",
    "flag, quoted": "tool --client-secret 'X' --verbose",
    "userinfo": "see postgres://X:X@host/db",
    "userinfo, escaped slashes": '{"u":"postgres:\\/\\/X:X@host\\/db"}',
    "header": "GET / HTTP/1.1\r\nX-Api-Key: X\r\nAccept: */*\r\n",
    "authorization": "GET / HTTP/1.1\r\nAuthorization: Custom X\r\nAccept: */*\r\n",
    "curl": "curl -H 'Authorization: Custom X' https://host",
    "multipart": '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nX\r\n--b--',
    "multipart, bare": "--b\r\nContent-Disposition: form-data; name=password\r\n\r\nX\r\n--b--",
    "html": '<input type="hidden" name="csrf_token" value="X">',
}


@pytest.mark.parametrize("way", sorted(WRITTEN))
def test_the_secret_goes_and_the_rest_stays(way: str) -> None:
    redactor = Redactor()
    new = redactor.text(WRITTEN[way].replace("X", SECRET).replace(f"{SECRET}-Api", "X-Api"))
    assert SECRET not in new
    assert PLACEHOLDER in new
    assert redactor.text(new) == new


@pytest.mark.parametrize(
    "way",
    ["json", "json, odd blanks", "json in json", "json in json in json", "sse", "query", "toml"],
)
def test_formatting_around_the_secret_is_kept_byte_for_byte(way: str) -> None:
    text = WRITTEN[way]
    assert Redactor().text(text.replace("X", SECRET)) == text.replace("X", PLACEHOLDER)


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 100, "usage": {"total_tokens": 12, "prompt_tokens": 5}}',
        '{"token": "Hello", "logprob": -0.31, "bytes": [72]}',
        '{"bytes":[72],"logprob":-0.31,"token":"Hello","top_logprobs":[]}',
        '{"token": "a", "logProbability": -1.5}',
        '{"next_page_token": "abcdef123", "token_type": "bearer"}',
        '{"password": null, "secret": true, "token": ""}',
        '{"q": "Enter the password:", "a": "x1y2z3"}',
        'url = "https://host/?token=" + value + "&b=1"',
        "f(token=token, api_key=os.environ['OPENAI_API_KEY'], password=self.password)",
        "password=$PASSWORD token=${TOKEN} secret={{ secret }} api_key=None",
        "if token == other: pass",
        "def f(password: str, token: Token) -> None: ...",
        "the secret of success; a token of gratitude, cookie recipes",
        '"required": ["password", "username"]',
        '{"properties": {"password": {"type": "string", "description": "The secret word"}}}',
        "PWD=/srv/app",
        "Sign in with your password, then see the token list.",
        "https://host/path?page=2&sort=asc#top",
    ],
)
def test_lookalikes_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_number_becomes_a_string_in_the_quotes_of_its_text() -> None:
    redactor = Redactor()
    assert redactor.text('{"pin_token": 1234}') == f'{{"pin_token": "{PLACEHOLDER}"}}'
    nested = json.dumps({"a": json.dumps({"password": -12.5e3, "b": 1})})
    assert json.loads(json.loads(redactor.text(nested))["a"]) == {"password": PLACEHOLDER, "b": 1}


def test_every_leaf_of_an_object_under_a_secret_name() -> None:
    text = json.dumps({"credentials": {"a": "x", "b": [1, None, True, {"c": "y"}]}, "d": "z"})
    p = PLACEHOLDER
    assert json.loads(Redactor().text(text)) == {
        "credentials": {"a": p, "b": [p, None, True, {"c": p}]},
        "d": "z",
    }


def test_a_schema_keeps_all_but_its_defaults() -> None:
    schema = {"properties": {"token": {"type": "string", "default": SECRET, "title": "T"}}}
    kept = {"properties": {"token": {"type": "string", "default": PLACEHOLDER, "title": "T"}}}
    assert json.loads(Redactor().text(json.dumps(schema))) == kept
    assert Redactor().redact(schema).value == kept


@pytest.mark.parametrize(
    "header,kept",
    [
        ("Cookie: sid=abc; theme=dark", "Cookie: sid=X; theme=X"),
        ("Set-Cookie: sid=abc; Path=/; HttpOnly", "Set-Cookie: sid=X; Path=/; HttpOnly"),
        (
            "Set-Cookie: a=1; Expires=Wed, 21 Oct 2037 07:28:00 GMT, b=2; Path=/",
            "Set-Cookie: a=X; Expires=Wed, 21 Oct 2037 07:28:00 GMT, b=X; Path=/",
        ),
        ("Cookie: justavalue1", "Cookie: X"),
        ("Cookie: empty=; b=2", "Cookie: empty=; b=X"),
    ],
)
def test_cookies_keep_names_and_attributes(header: str, kept: str) -> None:
    assert Redactor().text(header) == kept.replace("X", PLACEHOLDER)


def test_a_percent_encoded_value_goes_whole() -> None:
    assert Redactor().text("client%5Bsecret%5D=a%26b%3Dc&x=1") == (
        f"client%5Bsecret%5D={PLACEHOLDER}&x=1"
    )


def test_a_quote_inside_the_value_does_not_end_it() -> None:
    text = json.dumps({"a": json.dumps({"password": 'x"y\\', "b": "c"})})
    redacted = Redactor().text(text)
    assert json.loads(json.loads(redacted)["a"]) == {"password": PLACEHOLDER, "b": "c"}


def test_basic_credentials_only_when_they_are_some() -> None:
    good = b64encode(b"me:pass").decode()
    bad = b64encode(b"no colon here").decode()
    assert Redactor().text(f"x Basic {good}") == f"x Basic {PLACEHOLDER}"
    assert Redactor().text(f"x Basic {bad}") == f"x Basic {bad}"


HOSTILE = {
    "backslashes": "\\" * 1_000_000,
    "escaped quotes": '"token": "' + '\\"' * 500_000,
    "open objects": '"token":{' * 100_000,
    "names": "token=" * 150_000,
    "quotes": "password='" * 100_000,
    "blanks": "bearer" + " " * 1_000_000,
    "urls": "://a:" * 200_000,
    "keys": ("-----BEGIN PRI" + "VATE KEY-----\n") * 30_000,
    "dots": "eyJaaaaaaaaaaaa." * 60_000,
    "percent": "%25" * 300_000 + "token%3D1",
    "cookies": "Cookie: " + "a=b;" * 200_000,
    "mail": "a.@" * 300_000,
    "parts": "form-data; name=password\r\n\r\n" * 30_000,
    "templates": "{{password=" * 80_000,
    "quoted headers": '\\"Set-Cookie: a=' * 50_000,
    "wide escapes": '"token": "' + "\\u4e2d" * 200_000,
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
@pytest.mark.parametrize(
    "profile", [pytest.param("default", marks=pytest.mark.soak_only), "strict"]
)
def test_hostile_text_ends(what: str, profile: str) -> None:
    """With a pattern that backtracks this would take hours, not a moment."""
    redactor = Redactor(profile)  # type: ignore[arg-type]
    text = redactor.text(HOSTILE[what])
    assert isinstance(redactor.survivors(text.encode()), tuple)
