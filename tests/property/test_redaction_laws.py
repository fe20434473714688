"""Laws of redaction, tried on values with secrets planted anywhere, in any spelling.

Every secret is put together from halves: the repository itself contains no token.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.policy.redaction.gate import Engine, Gate
from reenact.policy.redaction.grammar import Finding
from reenact.policy.redaction.known_values import KnownValues
from reenact.policy.redaction.names import CASELESS, Names
from reenact.policy.redaction.prescan import IndexedText
from reenact.policy.redaction.redactor import Redactor, blind
from reenact.policy.redaction.text import TextScanner
from reenact.policy.redaction.tokens import SHAPES
from reenact.policy.redaction.walk import Walk
from tests.property.planted import BLANKS, NAMES, PLANTED, SHAPED, WITNESS, encode

ENGINES: tuple[Engine, ...] = ("hyperscan", "python")
ENVIRON = {"CORP_API_KEY": 'q"uo\\te é/x 42', "OTHER_TOKEN": "plainvalue77", "LANG": "en_US.UTF-8"}

ELEMENTS = ["password", "Password", "db_pass", "userPin", "session-id", "token"]
COMMANDS = ["curl -u me:", "curl --user me:", "mysql -p", "sshpass -p ", "redis-cli -a "]


def _texts_with_secret() -> st.SearchStrategy[str]:
    name = st.sampled_from(NAMES)
    blank = st.sampled_from(BLANKS)
    scheme = st.sampled_from(["Bearer ", "bearer\n", "BEARER\t", "Bearer \r\n "])
    flag = st.sampled_from(["--api-key ", "--token=", "--client-secret  "])
    return st.one_of(
        st.sampled_from(SHAPED),
        scheme.map(lambda s: s + PLANTED),
        st.just("Basic " + b64encode(f"me:{PLANTED}".encode()).decode()),
        st.just(f"postgres://me:{PLANTED}@host/db"),
        name.map(lambda n: f"https://host/?a=1&{n}={PLANTED}#x"),
        name.map(lambda n: f"a=1&{quote(n)}={PLANTED}&b=2"),
        name.map(lambda n: f"{n}={PLANTED}"),
        flag.map(lambda f: f"run {f}{PLANTED} now"),
        st.builds(lambda n, a, b: f'{{"{n}"{a}:{b}"{PLANTED}"}}', name, blank, blank),
        st.builds(lambda n, a: f"{{'{n}':{a}'{PLANTED}'}}", name, blank),
        name.map(lambda n: json.dumps({"x": [1, {n: PLANTED}]}, indent=2)),
        name.map(lambda n: json.dumps({n: {"deep": [PLANTED, 5]}})),
        name.map(lambda n: json.dumps([["a", "b"], [n, PLANTED]])),
        name.map(lambda n: json.dumps([{"name": n, "value": PLANTED}])),
        name.map(
            lambda n: f'--b\r\ncontent-disposition: form-data; name="{n}"\r\n\r\n{PLANTED}\r\n--b--'
        ),
        st.just(ENVIRON["CORP_API_KEY"]),
        st.just("is " + ENVIRON["OTHER_TOKEN"] + "."),
        st.sampled_from(ELEMENTS).map(lambda n: f"<a><x:{n} b='c'>{PLANTED}</x:{n}></a>"),
        st.sampled_from(ELEMENTS).map(lambda n: f"<{n}><![CDATA[{PLANTED}]]></{n}>"),
        st.sampled_from(COMMANDS).map(lambda c: c + PLANTED + " rest"),
        st.sampled_from(COMMANDS).map(lambda c: json.dumps((c + PLANTED).split())),
        st.just(f"https://host/cb?code={PLANTED}&state=1"),
    )


def _unicode_escaped(text: str) -> str:
    return '{"t": "' + "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000) + '"}'


SECRET_KEYS = [
    f"postgres://me:{PLANTED}@host/db",
    f"AccountName=a;AccountKey={PLANTED};",
    SHAPED[0],
]

SPELLINGS = [
    lambda text: text,
    lambda text: json.dumps({"text": text}),
    lambda text: json.dumps(json.dumps({"a": [text]})),
    lambda text: json.dumps({"arguments": json.dumps({"b": json.dumps([text])})}),
    _unicode_escaped,
    lambda text: json.dumps({"é": text}).replace('\\"', "\\u0022"),
    lambda text: "https://host/?q=" + quote(text, safe=""),
    lambda text: "q=" + quote_plus(text) + "&r=1",
    lambda text: "data: " + json.dumps({"delta": text}) + "\n\n",
    lambda text: "\x1b[31m" + text + "\x1b[0m",
    lambda text: json.dumps({"a": 1})[:-1] + ', "cut": ' + json.dumps(text)[:-1],
]

ODD_TEXT = st.text(st.sampled_from("ab \"'\\/{}[]:=,&;%@-_\n\t\r\x00\x1bé\u2028*10nu"), max_size=12)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text that may hold a secret, in some spelling, between odd characters."""
    inner = draw(st.one_of(_texts_with_secret(), ODD_TEXT, st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(0, 2))):
        inner = draw(st.sampled_from(SPELLINGS))(inner)
    return draw(ODD_TEXT) + inner + draw(ODD_TEXT)


def values() -> st.SearchStrategy[Any]:
    """JSON values with bytes, secret names, header pairs, argument lists and chunks."""
    named = [
        *NAMES,
        "token",
        "logprob",
        "max_tokens",
        "name",
        "pwd",
        "pin",
        "code",
        "grant_type",
        "sid",
    ]
    keys = st.one_of(st.sampled_from(named), ODD_TEXT, st.sampled_from(SECRET_KEYS))
    leaf = st.one_of(
        texts(),
        texts().map(lambda text: text.encode("utf-8", "replace")),
        st.builds(
            lambda text, charset: text.encode(charset, "replace"),
            texts(),
            st.sampled_from(["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
        ),
        texts().map(lambda text: "".join(char + "\0" for char in text)),
        st.binary(max_size=8),
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3),
            st.lists(st.tuples(keys, texts()), min_size=1, max_size=2),
            st.tuples(st.just("--api-key"), texts()).map(list),
            st.tuples(st.sampled_from(["curl", "mysql"]), st.just("-u"), texts()).map(list),
            st.fixed_dictionaries({"name": keys, "value": inner}),
            chunks(),
        ),
        max_leaves=5,
    )


@st.composite
def chunks(draw: st.DrawFn) -> dict[str, Any]:
    text = draw(texts())
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shape = draw(st.sampled_from(["text", "bytes", "object"]))
    if shape == "text":
        return {"chunks": parts}
    raw = [part.encode("utf-8", "replace") for part in parts]
    return {"chunks": raw if shape == "bytes" else [{"bytes": part, "t": 1} for part in raw]}


def exact(value: Any, salt: bytes | None = None) -> tuple[Any, int]:
    """The exact pass with no gate in front of any part of it."""
    names = Names()
    known = KnownValues((), ENVIRON, names)
    walk = Walk(names, known, TextScanner(names, known, strict=False), salt, gate=None)
    return walk.value(value), len(walk.changes)


REDACTORS = {engine: Redactor(environ=ENVIRON, engine=engine) for engine in ENGINES}


@pytest.mark.parametrize("engine", ENGINES)
@given(value=values())
def test_a_gate_that_does_not_fire_proves_the_value_clean(engine: Engine, value: Any) -> None:
    if not REDACTORS[engine].suspects(encode(value)):
        assert exact(value) == (value, 0)


@pytest.mark.parametrize("engine", ENGINES)
@given(text=texts())
def test_a_gate_that_does_not_fire_proves_raw_bytes_clean(engine: Engine, text: str) -> None:
    raw = text.encode()
    if not REDACTORS[engine].suspects(raw):
        assert exact(raw) == (raw, 0)


@given(value=values())
def test_the_engine_changes_no_result(value: Any) -> None:
    fast, plain = (REDACTORS[engine].redact(value) for engine in ENGINES)
    assert fast == plain
    assert (fast.value, len(fast.marks)) == exact(value)


@given(value=values())
def test_the_pass_without_the_gate_has_the_same_result(value: Any) -> None:
    redactor = REDACTORS["python"]
    gated = redactor.redact(value)
    assert redactor.redact(value, gated=False) == gated
    written = encode(gated.value)
    assert redactor.survivors(written, gated=False) == redactor.survivors(written)


@given(data=st.binary(max_size=60) | texts().map(str.encode))
def test_both_engines_fire_for_the_same_bytes(data: bytes) -> None:
    hyperscan, python = (Gate(engine=engine) for engine in ENGINES)
    assert hyperscan.suspects(data) == python.suspects(data)


@given(value=values(), salt=st.none() | st.just(b"salt"))
@example(value=["curl", "-u", "sk-Zz9Planted0SecretXx7 "], salt=b"salt")
def test_redacting_twice_is_redacting_once(value: Any, salt: bytes | None) -> None:
    redactor = Redactor(environ=ENVIRON, salt=salt)
    once = redactor.redact(value)
    again = redactor.redact(once.value)
    assert again.marks == ()
    assert again.value == once.value


@given(value=values())
def test_the_input_is_never_changed(value: Any) -> None:
    before = encode(value)
    result = Redactor(environ=ENVIRON).redact(value)
    assert encode(value) == before
    assert (result.value is value) == (result.marks == ())


@given(
    inner=_texts_with_secret(),
    spelling=st.sampled_from(SPELLINGS[:4] + SPELLINGS[8:]),
    before=st.sampled_from(["", " ", "\n", "see: "]),
)
def test_a_planted_secret_is_gone(inner: str, spelling: Any, before: str) -> None:
    value = {"a": [before + spelling(inner)], "b": spelling(inner).encode()}
    redactor = Redactor(environ=ENVIRON)
    assert redactor.suspects(encode(value))
    redacted = encode(redactor.redact(value).value)
    left = redacted + b"".join(v for v in [redactor.redact(value).value["b"]])
    assert WITNESS.encode() not in left
    assert ENVIRON["OTHER_TOKEN"].encode() not in left
    assert redactor.survivors(redacted) == ()


@given(value=values())
def test_pseudonyms_are_the_placeholder_to_the_blind(value: Any) -> None:
    plain = Redactor(environ=ENVIRON).redact(value).value
    named = Redactor(environ=ENVIRON, salt=b"pepper").redact(value).value
    assert blind(named) == plain


@given(text=texts())
def test_findings_are_disjoint_and_in_order(text: str) -> None:
    names = Names()
    found: list[Finding] = TextScanner(names, KnownValues((), ENVIRON, names), strict=True).find(
        text
    )
    places = [place for one in found for place in (one.start, one.end)]
    assert places == sorted(places)
    assert all(one.start < one.end for one in found)


@given(data=st.data())
def test_going_from_word_to_word_finds_what_a_search_finds(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    needs = [*shape.needs, *(need.upper() for need in shape.needs)]
    pieces = st.sampled_from(
        [*needs, "a1B2c3D4" * 5, "0" * 12, "_v1_", "do", "sk", " ", "-", ".", "İ"]
    )
    text = "".join(data.draw(st.lists(pieces, max_size=12)))
    found = sorted(match.span() for match in shape.matches(IndexedText(text)))
    assert found == sorted(match.span() for match in shape.exact.finditer(text))


@given(data=st.data())
def test_going_from_name_to_name_finds_what_a_search_finds(data: st.DataObject) -> None:
    stem = data.draw(st.sampled_from(Names(secret=["x-corp-pin"]).stems))
    needs = [*stem.needs, *(need.upper() for need in stem.needs)]
    pieces = st.sampled_from([*needs, *"corpin", "pass", "word", "s", "_", "-", " ", "\\", "İ"])
    searched = IndexedText("".join(data.draw(st.lists(pieces, max_size=12))))
    pattern = re.compile(stem.pattern, CASELESS)
    expected = [match.span() for match in pattern.finditer(searched.text)]
    found = searched.matches(pattern, stem.needs[0], stem.before)
    assert [match.span() for match in found] == expected
    if expected:
        assert all(map(searched.has, stem.needs))


@given(data=st.data())
def test_what_is_there_is_had_and_what_is_not_is_not(data: st.DataObject) -> None:
    pieces = [
        "sk-",
        "SK",
        "1//0",
        ":AA",
        "token",
        "Tok",
        "en",
        "-",
        "/",
        " ",
        "0",
        "é",
        "K",
        "\ud800",
    ]
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8)))
    text += data.draw(st.sampled_from(["", " and so on" * 300]))
    need = data.draw(st.sampled_from(["sk-", "1//0", ":aa", "token", "form-data", "_live_", "0"]))
    assert IndexedText(text).has(need) == (need in text.lower())
