"""XML in which the name of an element gives a secret away."""

from __future__ import annotations

import json
import re

import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

SECRET = "hunter2-Zq"

# With the secret as X.
WRITTEN = {
    "element": "<login><user>ada</user><password>X</password></login>",
    "capital letters": "<Login><PassWord>X</PassWord></Login>",
    "namespace": '<wsse:Password Type="http://host/x#PasswordText">X</wsse:Password>',
    "attribute on the next line": '<Password\n   Type="a">X</Password>',
    "blank before the end": "<password >X</password >",
    "character data": "<password><![CDATA[X]]></password>",
    "blanks around": "<password>\n    X\n  </password>",
    "nested": "<credentials><first>X</first> <second a='b'>X</second></credentials>",
    "bracket in an attribute": '<password hint="a>b">X</password>',
    "in JSON": json.dumps({"body": '<password a="b">X</password>'}),
    "in JSON, escaped slash": '{"body": "<password>X<\\/password>"}',
    "in JSON, escaped brackets": '{"body": "\\u003cpassword\\u003eX\\u003c/password\\u003e"}',
    "in XML": "<body>&lt;password type=&quot;a&quot;&gt;X&lt;/password&gt;</body>",
    "in a form": "xml=%3Cpassword%3EX%3C%2Fpassword%3E&a=1",
    "cut off": "<login><password>X",
    "cut off in the closing tag": "<login><password>X</pass",
    "cut off in character data": "<login><password><![CDATA[X",
    "property list": "<dict><key>password</key>\n\t<string>X</string></dict>",
    "properties": "<property><name>db.password</name><value>X</value></property>",
    "name in an attribute": '<entry key="db.password">X</entry>',
    "name in one of several attributes": '<s:property type="a" name="password" b="c">X</s:property>',
    "attribute": '<login password="X"/>',
}


@pytest.mark.parametrize("way", sorted(WRITTEN))
@pytest.mark.parametrize("engine", ["hyperscan", "python"])
def test_the_content_of_an_element_is_removed(way: str, engine: str) -> None:
    redactor = Redactor(engine=engine)  # type: ignore[arg-type]
    text = WRITTEN[way].replace("X", SECRET)
    assert redactor.suspects(text.encode())
    assert redactor.suspects(json.dumps({"a": text}).encode())
    new = redactor.text(text)
    assert new == WRITTEN[way].replace("X", PLACEHOLDER)
    assert redactor.text(new) == new
    assert redactor.redact(text.encode()).value == new.encode()


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize(
    "name",
    """
    password Passwd pwd secret client_secret ClientSecret token AccessToken api-key apiKey private_key
    pass db_pass pw passcode pin cvv card_number session_id sid auth SAMLResponse verification_code
    recovery_code mnemonic
    """.split(),
)
def test_each_secret_name_counts_as_an_element(name: str, profile: str) -> None:
    redactor = Redactor(profile)  # type: ignore[arg-type]
    text = f"<a:b xmlns:a='u'><a:{name}>{SECRET}81</a:{name}></a:b>"
    assert redactor.text(text) == re.sub(f"{SECRET}81", PLACEHOLDER, text)


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_an_element_that_is_cut_over_chunks(cut: int) -> None:
    text = f'<a><wsse:Password Type="x">{SECRET}</wsse:Password></a>'
    new = Redactor().redact({"chunks": [text[:cut], text[cut:]]}).value["chunks"]
    assert "".join(new) == text.replace(SECRET, PLACEHOLDER)


@pytest.mark.parametrize(
    "text",
    [
        "<password>" * 20_000,
        "<password " * 20_000,
        "<password a='" * 20_000,
        "<password>x</password " * 10_000,
        "<secret>" * 20_000 + "</secret>" * 20_000,
        "&lt;password&gt;" * 15_000,
        "<password><![CDATA[" * 10_000,
        "<key>password</key>" * 10_000,
    ],
)
def test_hostile_xml_ends(text: str) -> None:
    assert isinstance(Redactor().text(text), str)
