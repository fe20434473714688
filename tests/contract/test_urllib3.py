"""urllib3: what only it does, as it is, recorded and replayed."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import urllib3
from urllib3.exceptions import InsecureRequestWarning, MaxRetryError, NewConnectionError

from tests.contract.endpoints import TEXT
from tests.contract.relays import proxy, tls_front
from tests.contract.server import Exchange, Gone, Handler
from tests.contract.stage import Stage, outcome


def _flaky(exchange: Exchange) -> None:
    """``/flaky?503=2``: so often that, then it is fine."""
    times = exchange.act.notes.setdefault(exchange.asked.target, [])
    times.append(exchange.number)
    failing = int(exchange.query("failing"))
    if len(times) > failing:
        exchange.answer("200 OK", f"fine {exchange.number}".encode())
    elif exchange.query("how") == "drop":
        raise Gone
    else:
        exchange.answer("503 Busy", b"busy", ("Retry-After", "0"))


def _cut(exchange: Exchange) -> None:
    """``/cut/chunk``: hangs up within a chunk; ``/size``: a size that is none; ``/next``: before
    one; ``/length``: before the length is reached; ``/reset``: with a reset."""
    where = exchange.path.rsplit("/", 1)[1]
    if where == "length":
        exchange.head("200 OK", ("Content-Length", "50"))
        exchange.send(b"0123456789")
        raise Gone
    exchange.head("200 OK", ("Transfer-Encoding", "chunked"))
    exchange.chunk(f"first {exchange.number}".encode())
    if where == "chunk":
        exchange.send(b"a\r\n01234")
    elif where == "size":
        exchange.send(b"what?\r\n")
    raise Gone


def _dripping(exchange: Exchange) -> None:
    """A body of known length that comes in three parts, each when the gate opens."""
    exchange.head("200 OK", ("Content-Length", "15"))
    for part in (b"first", b"secon", b"third"):
        exchange.send(part)
        exchange.gate.passed()


@pytest.fixture(scope="module")
def own_endpoints() -> dict[str, Handler]:
    return {"/flaky": _flaky, "/cut": _cut, "/dripping": _dripping}


# Reading


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda r: list(r.stream(7)), id="stream-7"),
        pytest.param(lambda r: list(r.stream(None)), id="stream-all"),
        pytest.param(lambda r: list(r.read_chunked()), id="read-chunked"),
        pytest.param(lambda r: [r.read(9), r.read(1), r.read()], id="read-some"),
        pytest.param(lambda r: [r.read1(5), r.read1(5), r.read1(), r.tell()], id="read1"),
        pytest.param(lambda r: [r.data, r.data], id="data-twice"),
        pytest.param(lambda r: list(io.BufferedReader(r)), id="lines"),
        pytest.param(lambda r: r.drain_conn(), id="drained"),
        pytest.param(lambda r: [r.read(3), r.close(), r.closed, r.isclosed()], id="closed"),
    ],
)
def test_a_chunked_answer_is_read_in_any_way(stage: Stage, how: Any) -> None:
    def program() -> Any:
        with urllib3.PoolManager() as pool:
            response: Any = pool.request("GET", f"{stage.url}/lines", preload_content=False)
            response.auto_close = False
            read = how(response)
            response.close()
            return read, response.chunked, response.length_remaining

    assert stage.check(program) is not None


@pytest.mark.parametrize("decoded", [True, False], ids=["decoded", "raw"])
@pytest.mark.parametrize("path", ["encoded/gzip", "encoded/gzip?pieces=1", "encoded/deflate"])
def test_an_encoded_answer_is_read_decoded_or_raw(stage: Stage, path: str, decoded: bool) -> None:
    def program() -> Any:
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"{stage.url}/{path}", preload_content=False)
            return list(response.stream(11, decode_content=decoded)), response.tell()

    pieces, _ = stage.check(program)
    assert (TEXT.encode() in b"".join(pieces)) == decoded


def test_the_first_bytes_come_before_the_last(stage: Stage) -> None:
    """The server sends the next part only when the one before was seen."""

    def program() -> list[bytes]:
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"{stage.url}/dripping", preload_content=False)
            parts = []
            for _ in range(3):
                parts.append(response.read1())
                stage.server.gate.open()
            return [*parts, response.read1()]

    assert stage.check(program) == [b"first", b"secon", b"third", b""]


@pytest.mark.parametrize("where", ["chunk", "size", "next", "length"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
def test_an_answer_is_cut_short(stage: Stage, where: str, whole: bool) -> None:
    seen: list[bytes] = []

    def fetch() -> None:
        with urllib3.PoolManager(retries=False) as pool:
            response = pool.request("GET", f"{stage.url}/cut/{where}", preload_content=whole)
            for piece in response.stream(4):
                seen.append(piece)

    def program() -> Any:
        seen.clear()
        return outcome(fetch), list(seen)

    story, _ = stage.check(program)
    assert story[0][0].startswith("urllib3.exceptions.")


# Trying again


@pytest.mark.parametrize("how", ["status", "drop"])
def test_urllib3_tries_again_as_it_does(stage: Stage, how: str) -> None:
    def program() -> Any:
        retry = urllib3.Retry(total=4, backoff_factor=0, status_forcelist=[503])
        with urllib3.PoolManager(retries=retry) as pool:
            response: Any = pool.request("GET", f"{stage.url}/flaky?failing=2&how={how}")
            history = [
                (past.method, past.status, str(past.error)) for past in response.retries.history
            ]
            return response.status, response.data, history

    status, data, history = stage.check(program)
    assert (status, data, len(history)) == (200, b"fine 000003", 2)
    assert len(stage.calls()) == 3


def test_a_retry_sends_a_file_from_where_it_was(stage: Stage) -> None:
    def program() -> Any:
        file = io.BytesIO(b"skipped sent")
        file.seek(8)
        retry = urllib3.Retry(
            total=2, backoff_factor=0, status_forcelist=[503], allowed_methods=None
        )
        with urllib3.PoolManager(retries=retry) as pool:
            response = pool.request("POST", f"{stage.url}/flaky?failing=1", body=file)
            return response.data, file.tell()

    assert stage.check(program) == (b"fine 000002", 12)
    assert [call.data["request"]["body"] for call in stage.calls()] == ["sent", "sent"]


def test_too_many_retries_tell_why(stage: Stage) -> None:
    def program() -> Any:
        retry = urllib3.Retry(total=1, backoff_factor=0, status_forcelist=[503])
        with urllib3.PoolManager(retries=retry) as pool:
            return outcome(lambda: pool.request("GET", f"{stage.url}/flaky?failing=9"))

    ((kind, text, *_), *_) = stage.check(program)
    assert kind == "urllib3.exceptions.MaxRetryError"
    assert "too many 503 error responses" in text


# Bodies


class _Text(io.StringIO):
    """A file of text, which urllib3 sends as UTF-8."""


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: "grün", id="str"),
        pytest.param(lambda: b"bytes", id="bytes"),
        pytest.param(lambda: bytearray(b"array"), id="bytearray"),
        pytest.param(lambda: io.BytesIO(b"file"), id="file"),
        pytest.param(lambda: _Text("grün"), id="text-file"),
        pytest.param(lambda: iter([b"one", b"", b"two"]), id="iterator"),
        pytest.param(lambda: ["one", "zwölf"], id="list-of-str"),
    ],
)
def test_a_body_is_sent_as_ever(stage: Stage, make: Any) -> None:
    def program() -> bytes:
        with urllib3.PoolManager() as pool:
            return pool.request("PUT", f"{stage.url}/echo", body=make()).data

    assert b"transfer-encoding" in stage.check(program) or make() in ("grün", b"bytes", b"array")


def test_what_is_recorded_is_what_was_sent(stage: Stage) -> None:
    """The headers that urllib3 adds by itself too, in their order."""

    def program() -> Any:
        with urllib3.PoolManager() as pool:
            pool.request("POST", f"{stage.url}/echo", body=b"x", headers={"X-Mine": "1"})
            pool.request("POST", f"{stage.url}/echo", body=iter([b"x"]), headers={"Accept": "*/*"})
            pool.request(
                "GET", f"{stage.url}/echo", headers={"User-Agent": urllib3.util.SKIP_HEADER}
            )

    stage.record(program)
    asked = [[list(pair) for pair in one.headers] for one in stage.server.journal]
    assert [call.data["sent"]["headers"] for call in stage.calls()] == asked


# Connections


def test_a_connection_is_used_again(stage: Stage) -> None:
    def program() -> Any:
        with urllib3.HTTPConnectionPool("127.0.0.1", stage.server.port) as pool:
            first = pool.request("GET", "/json", preload_content=False)
            held = first.connection
            first.read()
            numbers = [pool.request("GET", "/json").headers["X-Number"] for _ in range(3)]
            again = pool.request("GET", "/json", preload_content=False)
            same = again.connection is held
            again.read()
            return numbers, same, pool.num_connections, pool.num_requests

    before = stage.server.connections
    assert stage.check(program) == (["000002", "000003", "000004"], True, 1, 5)
    assert stage.server.connections == before + 2


def test_a_full_pool_blocks_until_a_response_is_read(stage: Stage) -> None:
    def program() -> Any:
        with urllib3.HTTPConnectionPool(
            "127.0.0.1", stage.server.port, maxsize=1, block=True
        ) as pool:
            first = pool.request("GET", "/lines", preload_content=False)
            busy = outcome(lambda: pool.request("GET", "/json", pool_timeout=0, retries=False))
            first.read()
            return busy, pool.request("GET", "/json").status

    (story, status) = stage.check(program)
    assert (story[0][0], status) == ("urllib3.exceptions.EmptyPoolError", 200)


def test_logging_says_the_same(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "urllib3")

    def program() -> list[str]:
        caplog.clear()
        with urllib3.PoolManager(maxsize=2) as pool:
            for path in ("json", "json", "close", "json", "lines", "bare/204"):
                pool.request("GET", f"{stage.url}/{path}", preload_content=False).read()
        return [record.getMessage() for record in caplog.records if "urllib3" in record.name]

    said = stage.check(program)
    assert sum("Starting new HTTP connection" in line for line in said) == 1
    assert sum("Resetting dropped connection" in line for line in said) == 1


def test_http_client_shows_what_goes_over_the_wire(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual way to look at the traffic of requests."""
    monkeypatch.setattr(HTTPConnection, "debuglevel", 1)

    def program() -> str:
        with urllib3.PoolManager() as pool:
            pool.request("POST", f"{stage.url}/echo", body=b"x=1")
            pool.request("POST", f"{stage.url}/echo", body=iter([b"a", b"b"]))
        return capsys.readouterr().out

    shown = stage.check(program)
    assert "send: b'POST /echo" in shown
    assert "header: X-Number: 000002" in shown


def test_somebody_else_ends_a_read(stage: Stage) -> None:
    """``shutdown`` from another thread, while the server says nothing."""

    def program() -> Any:
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"{stage.url}/slow/body", preload_content=False)
            pieces = response.stream(None)
            first = next(pieces)
            helper = threading.Thread(target=response.shutdown)
            helper.start()
            rest = outcome(lambda: list(pieces))
            helper.join()
            return first, rest

    first, story = stage.check(program)
    assert first == b"one 000001"
    assert story[0][:2] == ("urllib3.exceptions.ProtocolError", "Response ended prematurely")


def test_a_connection_is_used_without_a_pool(stage: Stage) -> None:
    def program() -> Any:
        with closing(urllib3.connection.HTTPConnection("127.0.0.1", stage.server.port)) as conn:
            conn.connect()
            conn.request("GET", "/json")
            response = conn.getresponse()
            return response.status, response.data, conn.is_connected

    assert stage.check(program)[0] == 200


def test_a_copy_of_an_older_version(stage: Stage) -> None:
    """pip brings one along; it makes its calls through http.client."""
    old = pytest.importorskip("pip._vendor.urllib3")

    def program() -> Any:
        with old.PoolManager() as pool:
            numbers = [pool.request("GET", f"{stage.url}/json").data for _ in range(3)]
            streamed = pool.request("GET", f"{stage.url}/lines", preload_content=False)
            failed = outcome(lambda: pool.request("GET", f"{stage.url}/drop/head", retries=False))
            return numbers, list(streamed.stream()), failed

    before = stage.server.connections
    assert len(stage.check(program)[0]) == 3
    assert stage.server.connections == before + 2 * 2


def test_nobody_answers(stage: Stage, nobody: int) -> None:
    def program() -> Any:
        with urllib3.PoolManager(retries=0) as pool:
            try:
                pool.request("GET", f"http://127.0.0.1:{nobody}/")
            except MaxRetryError as error:
                reason = error.reason
                assert isinstance(reason, NewConnectionError)
                return (
                    str(error),
                    type(reason.conn),
                    type(reason.__cause__),
                    error.pool.port == nobody,
                )

    text, *rest = stage.check(program, reached=False)
    assert "Connection refused" in text
    assert rest == [urllib3.connection.HTTPConnection, ConnectionRefusedError, True]


def test_a_name_that_nobody_knows(stage: Stage) -> None:
    def program() -> Any:
        with urllib3.PoolManager(retries=False) as pool:
            try:
                pool.request("GET", "http://nobody.invalid/")
            except NewConnectionError as error:
                return type(error), str(error), type(error.__cause__), repr(error._reason)  # type: ignore[attr-defined]

    assert stage.check(program, reached=False)[0] is urllib3.exceptions.NameResolutionError


# TLS and proxies


def test_tls_is_checked_while_recording_and_not_needed_in_replay(stage: Stage, pem: Path) -> None:
    with tls_front(stage.server.port, pem) as front:
        url = f"https://127.0.0.1:{front.port}/json"

        def program() -> Any:
            with urllib3.PoolManager(ca_certs=str(pem), retries=False) as good:
                fine = good.request("GET", url).status, good.request("GET", url).data
            with urllib3.PoolManager(retries=False) as doubting:
                return fine, outcome(lambda: doubting.request("GET", url))

        recorded = stage.record(program)
        met = front.connections
    assert stage.replay(program) == recorded
    (status, _), story = recorded
    assert (status, met) == (200, 2)
    assert "CERTIFICATE_VERIFY_FAILED" in story[0][1]
    assert [call.data["request"]["url"] for call in stage.calls()] == [url] * 3


def test_a_certificate_error_is_the_same_object_graph(stage: Stage, pem: Path) -> None:
    with tls_front(stage.server.port, pem) as front:

        def program() -> Any:
            with urllib3.PoolManager(retries=0) as pool:
                try:
                    pool.request("GET", f"https://127.0.0.1:{front.port}/json")
                except MaxRetryError as error:
                    inner = error.reason.args[0]  # type: ignore[union-attr]
                    return repr(error), type(inner), inner.verify_code, inner.reason

        assert stage.check(program, reached=False)[2] == 18


def test_an_unverified_request_warns_in_replay_too(stage: Stage, pem: Path) -> None:
    with tls_front(stage.server.port, pem) as front:

        def program() -> Any:
            insecure = urllib3.PoolManager(cert_reqs="CERT_NONE")
            with insecure as pool, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                pool.request("GET", f"https://127.0.0.1:{front.port}/json")
            return [(one.category, str(one.message), one.filename, one.lineno) for one in caught]

        assert [kind for kind, *_ in stage.check(program)] == [InsecureRequestWarning]


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_through_a_proxy_the_target_is_what_counts(stage: Stage, pem: Path, tls: bool) -> None:
    with proxy() as through, tls_front(stage.server.port, pem) as front:
        url = f"https://127.0.0.1:{front.port}" if tls else stage.url

        def program() -> Any:
            kind: dict[str, Any] = {"ca_certs": str(pem)} if tls else {}
            with urllib3.ProxyManager(f"http://127.0.0.1:{through.port}", **kind) as pool:
                return [pool.request("GET", f"{url}/json?{n}").data for n in range(3)]

        recorded = stage.record(program)
        met = through.connections
        assert stage.replay(program) == recorded
        assert (through.connections, met) == (1, 1)
    assert [call.data["request"]["url"] for call in stage.calls()] == [
        f"{url}/json?{n}" for n in range(3)
    ]
    with stage.session("replay"), urllib3.PoolManager() as direct:
        assert [direct.request("GET", f"{url}/json?{n}").data for n in range(3)] == recorded


def test_a_proxy_that_refuses(stage: Stage, pem: Path) -> None:
    with proxy("407 Who are you") as through:

        def program() -> Any:
            with urllib3.ProxyManager(f"http://127.0.0.1:{through.port}", retries=0) as pool:
                return outcome(lambda: pool.request("GET", "https://127.0.0.1:9/json"))

        recorded = stage.check(program, reached=False)
    assert "407 Who are you" in recorded[0][1]


def test_a_proxy_that_is_not_there(stage: Stage, nobody: int) -> None:
    def program() -> Any:
        with urllib3.ProxyManager(f"http://127.0.0.1:{nobody}", retries=0) as pool:
            for scheme in ("http", "https"):
                try:
                    pool.request("GET", f"{scheme}://127.0.0.1:9/json")
                except MaxRetryError as error:
                    reason: Any = error.reason
                    inner = reason.original_error
                    yield str(error), type(inner), inner is reason.__cause__, type(inner.conn)

    told = stage.check(lambda: list(program()), reached=False)
    assert [kind for _, kind, *_ in told] == [NewConnectionError] * 2


def test_outside_a_session_nothing_is_touched(stage: Stage) -> None:
    original = urllib3.HTTPConnectionPool._make_request
    with stage.session("record"):
        assert urllib3.HTTPConnectionPool._make_request is not original
    assert urllib3.HTTPConnectionPool._make_request is original
    stage.server.begin_act()
    with urllib3.PoolManager() as pool:
        assert pool.request("GET", f"{stage.url}/json").status == 200
    assert stage.calls() == []
