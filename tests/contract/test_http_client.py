"""http.client and urllib.request: what only they do, as they are, recorded and replayed."""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import urllib.error
import urllib.request
import xmlrpc.client
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import reenact
from tests.contract.relays import proxy, tls_front
from tests.contract.server import Exchange, Handler
from tests.contract.stage import Stage, outcome


def _continue(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n")
    exchange.answer("200 OK", b"at last")


def _procedure(exchange: Exchange) -> None:
    """Calls itself by the name that it was called by."""
    said: Any = xmlrpc.client.loads(exchange.asked.body.decode())
    (number,), name = said
    body = xmlrpc.client.dumps((f"{name} {number}",), methodresponse=True)
    exchange.answer("200 OK", body.encode(), ("Content-Type", "text/xml"))


def _switch(exchange: Exchange) -> None:
    exchange.head("101 Switching Protocols", ("Upgrade", "other"), ("Connection", "upgrade"))


@pytest.fixture(scope="module")
def own_endpoints() -> dict[str, Handler]:
    return {"/continue": _continue, "/procedure": _procedure, "/switch": _switch}


def _connection(stage: Stage, **options: Any) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", stage.server.port, **options))


def _asked(stage: Stage) -> list[Any]:
    return [call.data["request"].get("body") for call in stage.calls()]


# Requests


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: "latin \xe9", id="str"),
        pytest.param(lambda: bytearray(b"array"), id="bytearray"),
        pytest.param(lambda: io.BytesIO(b"file"), id="file"),
        pytest.param(lambda: io.StringIO("latin \xe9"), id="text-file"),
        pytest.param(lambda: iter([b"one", b"", b"two\r\n0\r\n\r\n"]), id="iterator"),
        pytest.param(lambda: (b"one", b"two"), id="tuple"),
        pytest.param(lambda: None, id="none"),
    ],
)
def test_a_body_is_sent_as_ever(stage: Stage, make: Any) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("POST", "/echo", make(), {"X-One": "1"})
            return conn.getresponse().read()

    assert b'"n": "000001"' in stage.check(program)


def test_a_request_is_put_together_by_hand(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.putrequest("POST", "/echo", skip_accept_encoding=True)
            conn.putheader("X-Two", "1", "2")
            conn.putheader("Content-Length", 6)
            conn.endheaders()
            conn.send(b"abc")
            conn.send(io.BytesIO(b"def"))
            first = conn.getresponse().read()
            conn.putrequest("PUT", "/echo")
            conn.putheader("Transfer-Encoding", "chunked")
            conn.endheaders(iter([b"gh", b"i"]), encode_chunked=True)
            return first, conn.getresponse().read()

    stage.check(program)
    assert _asked(stage) == ["abcdef", "ghi"]


def test_a_body_that_nobody_announced_belongs_to_the_request(stage: Stage) -> None:
    """Then only reading the answer tells that it is complete."""

    def program() -> Any:
        with _connection(stage) as conn:
            conn.putrequest("POST", "/json")
            conn.endheaders()
            return conn.getresponse().read()

    assert b"/json" in stage.check(program)


def test_what_is_recorded_is_what_was_sent(stage: Stage) -> None:
    def program() -> None:
        with _connection(stage) as conn:
            conn.request("POST", "/echo?a=1", b"x", {"X-Mine": "1", "Accept": "*/*"})
            conn.getresponse().read()

    stage.record(program)
    (asked,) = stage.server.journal
    (call,) = stage.calls()
    assert call.data["sent"]["headers"] == [list(pair) for pair in asked.headers]
    assert call.data["request"]["url"] == f"{stage.url}/echo?a=1"


# Answers


def test_an_answer_is_read_in_any_way(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", "/lines?count=4")
            response = conn.getresponse()
            line = response.readline()
            buffer = bytearray(10)
            count = response.readinto(buffer)
            seen = [line, count, bytes(buffer), response.peek(3)[:3], response.read(5)]
            seen += [response.read1(), list(response), response.read(), response.isclosed()]
            conn.request("GET", "/json")
            response = conn.getresponse()
            seen += [response.peek(4)[:4], response.read(3), response.readline(), response.read()]
            return seen, response.getheaders(), response.getheader("x-number"), response.will_close

    assert stage.check(program)[0][0] == b'{"line": 0, "n": "000001"}\n'


def test_one_connection_for_many_requests(stage: Stage) -> None:
    def program() -> list[bytes]:
        with _connection(stage) as conn:
            answers = []
            for path in ("/json", "/bare/204", "/bare/304", "/close", "/json", "/old", "/json"):
                conn.request("GET", path)
                answers.append(conn.getresponse().read())
            conn.request("HEAD", "/json")
            return [*answers, conn.getresponse().read()]

    before = stage.server.connections
    stage.check(program)
    assert stage.server.connections == before + 2 * 3


def test_a_second_request_goes_out_before_the_first_answer_is_read(stage: Stage) -> None:
    """http.client allows it, but loses the second answer when that comes early."""

    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", "/lines")
            first = conn.getresponse()
            conn.request("GET", "/json")
            early = outcome(conn.getresponse)
            return early, first.read(), conn.getresponse().read()

    early, lines, last = stage.record(program)
    assert stage.replay(program) == (early, lines, last)
    assert early[0][:2] == ("http.client.ResponseNotReady", "Request-sent")
    assert lines.count(b"\n") == 5


def test_answers_of_two_connections_are_taken_crosswise(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as one, _connection(stage) as other:
            one.request("GET", "/json?one")
            other.request("GET", "/json?other")
            return other.getresponse().read(), one.getresponse().read()

    recorded = stage.record(program)
    assert stage.replay(program) == recorded
    assert b"other" in recorded[0]


def test_the_server_says_first_that_it_will_answer(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("POST", "/continue", b"x", {"Expect": "100-continue"})
            response = conn.getresponse()
            return response.status, response.read(), response.getheader("X-Early")

    assert stage.check(program) == (200, b"at last", None)


def test_an_answer_that_nobody_takes(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", "/json?forgotten")
        with _connection(stage) as conn:
            conn.request("GET", "/lines?count=9")
            conn.getresponse().read(3)
        with _connection(stage) as conn:
            conn.request("GET", "/json?last")
            return conn.getresponse().read()

    assert b"last" in stage.check(program)
    assert len(stage.calls()) == 3


def test_it_shows_what_goes_over_the_wire(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> str:
        with _connection(stage) as conn:
            conn.set_debuglevel(1)
            conn.request("POST", "/echo", b"a=1")
            conn.getresponse().read()
        return capsys.readouterr().out

    assert "reply: 'HTTP/1.1 200 OK" in stage.check(program)


# Failures, each where it was raised


def test_connecting_fails_where_the_request_is_sent(stage: Stage, nobody: int) -> None:
    def program() -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", nobody)) as conn:
            for _ in range(2):
                with pytest.raises(ConnectionRefusedError) as refused:
                    conn.request("GET", "/")
                yield refused.value.errno, refused.value.args
                with pytest.raises(http.client.CannotSendRequest):
                    conn.request("GET", "/")
                conn.close()

    assert len(stage.check(lambda: list(program()), reached=False)) == 2


@pytest.mark.parametrize(
    "path, kind",
    [
        ("/drop/head", http.client.RemoteDisconnected),
        ("/garbage", http.client.BadStatusLine),
        ("/slow", TimeoutError),
    ],
    ids=["dropped", "garbage", "slow"],
)
def test_receiving_fails_where_the_answer_is_received(
    stage: Stage, path: str, kind: type[Exception]
) -> None:
    def program() -> Any:
        with _connection(stage, timeout=0.3) as conn:
            conn.request("GET", path)
            with pytest.raises(kind) as failed:
                conn.getresponse()
            conn.close()
            conn.request("GET", "/json")
            return str(failed.value), conn.getresponse().status

    assert stage.check(program)[1] == 200


@pytest.mark.parametrize("path", ["/drop/chunked", "/drop/length"])
def test_an_answer_is_cut_short(stage: Stage, path: str) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", path)
            response = conn.getresponse()
            stage.server.gate.open()
            with pytest.raises(http.client.IncompleteRead) as short:
                response.read()
            return repr(short.value), short.value.partial, short.value.expected

    assert stage.check(program)[1] == b"one 000001"


def test_a_name_that_nobody_knows(stage: Stage) -> None:
    def program() -> Any:
        with pytest.raises(urllib.error.URLError) as failed:
            urllib.request.urlopen("http://nobody.invalid/")
        reason: Any = failed.value.reason
        return str(failed.value), type(reason), reason.args

    assert stage.check(program, reached=False)[1] is socket.gaierror


# Sockets


def test_a_connection_is_made_and_set_up_beforehand(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.connect()
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            conn.sock.settimeout(20)
            tunnel = outcome(lambda: conn.set_tunnel("elsewhere"))
            readable, _, _ = select.select([conn.sock], [], [], 0)
            conn.request("GET", "/json")
            return tunnel, readable, conn.getresponse().status

    tunnel, readable, status = stage.check(program)
    assert tunnel[0][0] == "builtins.RuntimeError"
    assert (readable, status) == ([], 200)


def test_what_only_a_socket_knows_is_told_while_recording(stage: Stage) -> None:
    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", "/json")
            conn.getresponse().read()
            return conn.sock.getpeername()

    assert stage.record(program) == ("127.0.0.1", stage.server.port)
    with pytest.raises(AttributeError, match="is not connected, and has no getpeername"):
        stage.replay(program)


def test_another_protocol_is_refused(stage: Stage) -> None:
    """And not half recorded."""

    def program() -> Any:
        with _connection(stage) as conn:
            conn.request("GET", "/switch", headers={"Upgrade": "other", "Connection": "upgrade"})
            status = conn.getresponse().status
            with pytest.raises(reenact.UsageError, match="has switched to a protocol"):
                conn.sock.sendall(b"hello")
            with pytest.raises(reenact.UsageError, match="has switched to a protocol"):
                conn.sock.recv(5)
            return status

    assert stage.record(program) == 101
    assert stage.replay(program) == 101


def test_a_connection_outlives_sessions(stage: Stage) -> None:
    """Open before the session, in it and after it."""

    def ask() -> bytes:
        conn.request("GET", "/json")
        return conn.getresponse().read()

    with _connection(stage) as conn:
        stage.server.begin_act()
        before = stage.server.connections
        answers = [ask()]
        with stage.session("record"):
            answers += [ask(), ask()]
        answers.append(ask())
        assert stage.server.connections == before + 1
        with stage.session("replay"):
            assert [ask(), ask()] == answers[1:3]
        assert stage.server.connections == before + 1
        assert b"000005" in ask()


class _Own(http.client.HTTPConnection):
    """Connects in its own way, as httplib2 does."""

    connected = 0

    def connect(self) -> None:
        type(self).connected += 1
        found = socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM)
        self.sock = socket.socket(*found[0][:3])
        self.sock.connect(found[0][4])


def test_a_class_that_connects_in_its_own_way(stage: Stage) -> None:
    def program() -> Any:
        class Late(_Own):
            connected = 0

            def connect(self) -> None:
                super().connect()
                self.sock.settimeout(20)

        for kind in (_Own, Late):
            with closing(kind("127.0.0.1", stage.server.port)) as conn:
                if conn.sock is None:
                    conn.connect()
                conn.request("GET", "/json")
                yield conn.getresponse().read()

    stage.check(lambda: list(program()))
    assert _Own.connected == 2
    assert "__init_subclass__" not in vars(http.client.HTTPConnection)


# TLS and proxies


def test_tls_is_checked_while_recording_and_not_needed_in_replay(stage: Stage, pem: Path) -> None:
    with tls_front(stage.server.port, pem) as front:
        place = ("127.0.0.1", front.port)

        def program() -> Any:
            context = ssl.create_default_context(cafile=str(pem))
            with closing(http.client.HTTPSConnection(*place, context=context)) as conn:
                conn.connect()
                conn.request("GET", "/json")
                fine = conn.getresponse().read()
            doubting = closing(http.client.HTTPSConnection(*place))
            with doubting as conn, pytest.raises(ssl.SSLCertVerificationError) as refused:
                conn.request("GET", "/json")
            return fine, str(refused.value), refused.value.verify_code, refused.value.reason

        recorded = stage.record(program)
    assert stage.replay(program) == recorded
    assert recorded[2] == 18
    assert {call.data["request"]["url"] for call in stage.calls()} == {
        f"https://127.0.0.1:{place[1]}/json"
    }


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_through_a_proxy_the_target_is_what_counts(stage: Stage, pem: Path, tls: bool) -> None:
    with proxy() as through, tls_front(stage.server.port, pem) as front:
        url = f"https://127.0.0.1:{front.port}/json" if tls else f"{stage.url}/json"

        def program(via: str = f"http://127.0.0.1:{through.port}") -> bytes:
            context = ssl.create_default_context(cafile=str(pem))
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({"http": via, "https": via} if via else {}),
                urllib.request.HTTPSHandler(context=context),
            )
            with opener.open(url) as response:
                data: bytes = response.read()
                return data

        recorded = stage.record(program)
        met = through.connections
        assert stage.replay(program) == recorded
        assert stage.replay(lambda: program(via="")) == recorded
        assert through.connections == met == 1
    assert [call.data["request"]["url"] for call in stage.calls()] == [url]


def test_a_proxy_that_refuses(stage: Stage) -> None:
    with proxy("407 Who are you") as through:

        def program() -> Any:
            with closing(http.client.HTTPSConnection("127.0.0.1", through.port)) as conn:
                conn.set_tunnel("127.0.0.1", 9)
                return outcome(lambda: conn.request("GET", "/"))

        ((_, text, *_), *_) = stage.check(program, reached=False)
    assert text == "Tunnel connection failed: 407 Who are you"


# urllib.request, and another one that is made of http.client


def test_urlopen_raises_what_it_raises(stage: Stage, nobody: int) -> None:
    def program() -> Any:
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{stage.url}/status/404")
        with missing.value as answer:
            told = answer.code, answer.reason, answer.read(), answer.headers["X-Number"]
        with pytest.raises(urllib.error.URLError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{nobody}/")
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(f"{stage.url}/slow", timeout=0.2)
        return told, repr(refused.value.reason)

    told, reason = stage.check(program, reached=False)
    assert told[:2] == (404, "Because 404")
    assert reason == "ConnectionRefusedError(111, 'Connection refused')"


def test_urlopen_follows_each_hop(stage: Stage) -> None:
    def program() -> Any:
        with urllib.request.urlopen(f"{stage.url}/chain/2") as response:
            return response.url.removeprefix(stage.url), response.read(), response.isclosed()

    assert stage.check(program)[0] == "/json"
    assert len(stage.calls()) == 3


def test_urlretrieve_saves_what_it_saved(stage: Stage, tmp_path: Path) -> None:
    def program() -> Any:
        place, headers = urllib.request.urlretrieve(f"{stage.url}/binary", tmp_path / "saved")
        return Path(place).read_bytes(), headers.items()

    data, _ = stage.check(program)
    assert len(data) == 6 + 256 * 4096


def test_procedures_are_called(stage: Stage) -> None:
    def program() -> Any:
        with xmlrpc.client.ServerProxy(f"{stage.url}/procedure") as far:
            return far.system.double(3), far.again(4)

    assert stage.check(program) == ("system.double 3", "again 4")
