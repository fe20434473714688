from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from reenact.errors import ExtraMissing
from reenact.policy.redaction.gate import Engine, Gate, Verdict
from reenact.policy.redaction.names import Names

ENGINES: tuple[Engine, ...] = ("hyperscan", "python")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "data",
    [
        b'{"password":"x"}',
        b'{"PassWord" : "x"}',
        b'[["Authorization","x"]]',
        b'{"a":"{\\"api_key\\": 1}"}',
        b'{"a":"{\\\\\\"api-key\\\\\\": 1}"}',
        b'{"a":"p\\\\u0061ssword"}',
        b"p%61ssword=x",
        b"client%5Bsecret%5D=x",
        b"tool --client-secret x",
        b"https://u:p@host",
        b"https:\\/\\/u:p@host",
        b"https%3A%2F%2Fu%3Ap%40host",
        b"authorization",
        b"form-data; name=password\r\n",
        b'"<key>password\\n</key><string>x</string>"',
        b"curl%20-u%20ada:x",
        b'["/usr/bin/curl","-uada:x"]',
        b"cat f | docker -l debug login -u ada -p x",
        b'{"code":"x","codeVerifier":"y"}',
    ],
)
def test_it_fires(engine: Engine, data: bytes) -> None:
    assert Gate(engine=engine).suspects(data)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"max_tokens":1,"total_tokens":2}',
        b"the secret of a token and a cookie jar",
        b'{"signature":"abc","id":"call_1"}',
        b'{"x":"\\u001b[31m"}',
        b'{"x":"caf\xc3\xa9 \\\\u00e9"}',
        b"node_modules/@types/node",
        b"2026-11-06T12:46:45.447Z INFO start -k",
        b"<p>one token</p><p>two</p>",
        b"docker run -p 8080:80 image",
        b"curl and well-known hosts",
        b'{"code":"x","code_type":"y"}',
    ],
)
def test_it_is_silent(engine: Engine, data: bytes) -> None:
    assert Gate(engine=engine).look(data) is Verdict.CLEAN


@pytest.mark.parametrize("engine", ENGINES)
def test_chunks_need_a_second_look(engine: Engine) -> None:
    gate = Gate(engine=engine)
    assert gate.look(b'{"chunks":["a","b"]}') is Verdict.STREAMS
    assert gate.look(b'{"chunks":["a","b"],"token":"x"}') is Verdict.SUSPECT


@pytest.mark.parametrize("engine", ENGINES)
def test_own_names_get_their_own_gate(engine: Engine) -> None:
    assert Gate(Names(secret=["door code"]), engine=engine).suspects(b'{"doorCode":"1"}')
    assert not Gate(engine=engine).suspects(b'{"doorCode":"1"}')


def test_the_engine_in_use_is_told() -> None:
    assert Gate(engine="hyperscan").engine == "hyperscan"
    assert Gate(engine="python").engine == "python"
    assert Gate().engine in ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_one_gate_serves_many_threads(engine: Engine) -> None:
    gate = Gate(engine=engine)
    clean, dirty = b'{"a":"b"}' * 2_000, b'{"a":"b"}' * 2_000 + b'"password":1'
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(gate.suspects, [clean, dirty] * 200))
    assert verdicts == [False, True] * 200


def test_names_too_many_for_hyperscan_change_the_engine_and_nothing_else() -> None:
    long = ["x" + "y" * 3_000 + str(number) for number in range(3)]
    gate = Gate(Names(secret=long), engine="auto")
    assert gate.suspects(f'{{"{long[0]}":1}}'.encode())
    assert gate.suspects(b'{"password":1}')
    assert not gate.suspects(b'{"a":1}')


def test_without_hyperscan_auto_is_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    assert Gate(Names(secret=["some own name"])).engine == "python"
    with pytest.raises(ExtraMissing) as missing:
        Gate(Names(secret=["another own name"]), engine="hyperscan").look(b"")
    assert "reenact[fast]" in missing.value.hint


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "data", [b"eyJ", b"-", b"--a", b"--a-", b"\\", b"form-data", b"token ", b"://a", b"api_", b"%2"]
)
def test_hostile_data_ends(engine: Engine, data: bytes) -> None:
    """With a pattern that tries every start against every end this would take hours."""
    verdict = Gate(engine=engine).look(data * (1_000_000 // len(data)) + b".")
    assert verdict in (Verdict.CLEAN, Verdict.SUSPECT)
