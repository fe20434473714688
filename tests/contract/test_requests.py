"""requests: what only it does, as it is, recorded and replayed."""

from __future__ import annotations

import base64
import gc
import socket
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import requests.adapters
import urllib3

from tests.contract.clients.cases import some_with
from tests.contract.relays import proxy, tls_front
from tests.contract.server import Exchange, Handler
from tests.contract.stage import Stage, outcome


def _door(exchange: Exchange) -> None:
    """Opens for who knows the word, and gives everybody something to remember."""
    cookie = ("Set-Cookie", f"visit={exchange.number}; Path=/")
    if exchange.asked.header("authorization") is None:
        exchange.answer("401 Who", b"who?", ("WWW-Authenticate", _DIGEST), cookie)
    else:
        exchange.answer("200 OK", (exchange.asked.header("cookie") or "none").encode(), cookie)


_DIGEST = 'Digest realm="door", nonce="abc", qop="auth", algorithm=MD5'


def _unpacked(exchange: Exchange) -> None:
    exchange.answer("200 OK", b"this is not gzip", ("Content-Encoding", "gzip"))


@pytest.fixture(scope="module")
def own_endpoints() -> dict[str, Handler]:
    return {"/door": _door, "/unpacked": _unpacked}


@contextmanager
def _opened() -> Iterator[requests.Session]:
    """Without the proxies of whoever runs the tests."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


# Answers


def test_all_of_a_response_is_there(stage: Stage) -> None:
    def program() -> Any:
        with _opened() as session:
            response = session.get(f"{stage.url}/headers")
            raw: Any = response.raw
            return (
                (response.status_code, response.reason, response.text, response.encoding),
                (response.ok, response.url, list(response.headers.items()), response.is_redirect),
                (raw.version, raw.status, raw.closed, raw.headers.getlist("set-cookie")),
                sorted(response.cookies.items()),
                type(response.connection),
                raw._original_response.msg.get_all("x-a"),
            )

    assert stage.check(program)[-1] == ["one", "two"]


def test_redirects_are_requests_own(stage: Stage) -> None:
    def program() -> Any:
        with _opened() as session:
            response = session.get(f"{stage.url}/chain/2")
            return [
                (one.status_code, one.url, one.content) for one in response.history
            ], response.url

    history, last = stage.check(program)
    assert (len(history), last) == (2, f"{stage.url}/json")
    assert len(stage.calls()) == 3


def test_cookies_and_digests_come_out_of_answers(stage: Stage) -> None:
    """The digest holds a random number, which does not count."""

    def program() -> Any:
        with _opened() as session:
            auth = requests.auth.HTTPDigestAuth("guest", "word")
            first = session.get(f"{stage.url}/door", auth=auth)
            second = session.get(f"{stage.url}/door", auth=auth)
            jar = sorted(session.cookies.items())
            return first.text, second.text, [one.status_code for one in first.history], jar

    assert stage.check(program) == ("visit=000001", "visit=000002", [401], [("visit", "000003")])


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda r: list(r.iter_content(None)), id="as-it-comes"),
        pytest.param(lambda r: list(r.iter_content(10)), id="by-ten"),
        pytest.param(lambda r: list(r.iter_lines()), id="lines"),
        pytest.param(lambda r: list(r.iter_lines(chunk_size=1, decode_unicode=True)), id="text"),
        pytest.param(lambda r: r.raw.read(), id="raw"),
        pytest.param(lambda r: r.content, id="content"),
    ],
)
def test_a_stream_is_read_in_any_way(stage: Stage, how: Callable[[Any], Any]) -> None:
    def program() -> Any:
        with _opened() as session, session.get(f"{stage.url}/lines", stream=True) as response:
            return how(response)

    assert len(stage.check(program)) > 0


def test_a_stream_is_left_and_the_session_goes_on(stage: Stage) -> None:
    def program() -> Any:
        with _opened() as session:
            with session.get(f"{stage.url}/endless", stream=True) as response:
                first = next(response.iter_content(None))
            return first, session.get(f"{stage.url}/json").json()["n"]

    assert stage.check(program) == (b"data: 0 of 000001\n\n", "000002")


def test_a_body_that_is_read_at_once_is_one_delivery(stage: Stage) -> None:
    def program() -> None:
        with _opened() as session:
            session.get(f"{stage.url}/lines")
            session.get(f"{stage.url}/encoded/gzip?pieces=1")

    stage.record(program)
    assert ["cuts" in call.data["response"] for call in stage.calls()] == [False, False]


# Other adapters


class _Noting(requests.adapters.HTTPAdapter):
    """Notes what passes, and lets it pass."""

    passed: list[str]

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.passed.append(request.url)
        return super().send(request, *args, **kwargs)


class _Foreign(requests.adapters.BaseAdapter):
    """Made of urllib3, and not of requests' own adapter."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = urllib3.PoolManager()

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        answer = self._pool.request(request.method, request.url, preload_content=False)
        response = requests.Response()
        response.status_code = answer.status
        response.raw = answer
        response.request = request
        response.url = request.url
        return response

    def close(self) -> None:
        self._pool.clear()


def test_other_adapters(stage: Stage) -> None:
    def program() -> Any:
        with _opened() as session:
            noting = _Noting()
            noting.passed = []
            session.mount("http://127.0.0.1", noting)
            first = session.get(f"{stage.url}/json").text
            session.mount("http://127.0.0.1", _Foreign())
            return first, session.get(f"{stage.url}/lines").text, noting.passed

    assert stage.check(program)[2] == [f"{stage.url}/json"]


# Failures


@pytest.mark.parametrize(
    "path, stream, kind",
    [
        ("drop/head", False, requests.exceptions.ConnectionError),
        ("slow", False, requests.exceptions.ReadTimeout),
        ("drop/length", True, requests.exceptions.ChunkedEncodingError),
        ("drop/chunked", True, requests.exceptions.ChunkedEncodingError),
        ("slow/body", True, requests.exceptions.ConnectionError),
        ("unpacked", False, requests.exceptions.ContentDecodingError),
    ],
    ids=["dropped", "slow", "cut", "cut-chunk", "slow-body", "not-gzip"],
)
def test_failures_are_those_of_requests(
    stage: Stage, path: str, stream: bool, kind: type[Exception]
) -> None:
    timeout = 0.3 if path.startswith("slow") else 30

    def program() -> Any:
        with _opened() as session, pytest.raises(requests.exceptions.RequestException) as failed:
            response = session.get(f"{stage.url}/{path}", timeout=timeout, stream=stream)
            stage.server.gate.open()
            list(response.iter_content(4))
        chain = outcome(lambda: _raise(failed.value))
        return type(failed.value), chain, repr(failed.value.args), failed.value.request is None

    assert stage.check(program)[0] is kind


def _raise(error: BaseException) -> None:
    raise error


def test_nobody_takes_the_call_in_time(stage: Stage) -> None:
    """A port whose queue is full: connecting waits, and is not refused."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))

        def program() -> Any:
            with _opened() as session, pytest.raises(requests.ConnectTimeout) as failed:
                session.get(f"http://127.0.0.1:{port}/", timeout=0.2)
            return str(failed.value), repr(failed.value.args)

        told, _ = stage.check(program, reached=False)
    assert "connect timeout=0.2" in told


def test_tls_errors_and_warnings(stage: Stage, pem: Path) -> None:
    with tls_front(stage.server.port, pem) as front:
        url = f"https://127.0.0.1:{front.port}/json"

        def program() -> Any:
            with _opened() as session:
                with pytest.raises(requests.exceptions.SSLError) as refused:
                    session.get(url)
                fine = session.get(url, verify=str(pem)).text
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    session.get(url, verify=False)
            return str(refused.value), fine, [str(one.message) for one in caught]

        told, _, said = stage.check(program, reached=False)
    assert "CERTIFICATE_VERIFY_FAILED" in told
    assert len(said) == 1


def test_proxies_with_credentials(stage: Stage) -> None:
    """Which are not recorded, and not needed to replay."""
    with proxy() as through:

        def program(secret: str = "hunter22-hunter22") -> Any:
            via = {"http": f"http://user:{secret}@127.0.0.1:{through.port}"}
            with _opened() as session:
                return session.get(f"{stage.url}/json", proxies=via).text

        recorded = stage.record(program)
        assert stage.replay(program) == recorded
        assert stage.replay(lambda: program("something else")) == recorded
        assert through.connections == 1
    files = [path for path in stage.folder.rglob("*") if path.is_file()]
    assert files != []
    packed = base64.b64encode(b"user:hunter22-hunter22")
    for path in files:
        data = path.read_bytes()
        assert b"hunter22" not in data
        assert packed not in data


# Several at once


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_sixteen_threads(stage: Stage, shared: bool) -> None:
    """The same question from all of them, and from each a stream of its own."""

    def talk(session: requests.Session, number: int) -> Any:
        answers = [session.get(f"{stage.url}/json").json()["n"] for _ in range(3)]
        with session.get(f"{stage.url}/lines?count=3&of={number}", stream=True) as response:
            return number, answers, list(response.iter_lines())

    def work(number: int, common: requests.Session) -> Any:
        if shared:
            return talk(common, number)
        with _opened() as own:
            return talk(own, number)

    def program() -> Any:
        with _opened() as common, ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda number: work(number, common), range(16)))

    recorded = stage.record(program)
    for _ in range(2):
        assert stage.replay(program) == recorded
    numbers = [number for _, answers, _ in recorded for number in answers]
    assert len(set(numbers)) == 48


def test_threads_in_and_out_of_a_session(stage: Stage) -> None:
    """What is asked outside goes to the server, also while somebody replays."""
    stage.record(lambda: requests.get(f"{stage.url}/json?inside").text)
    stage.server.begin_act()
    seen: list[str] = []
    with stage.session("replay"):
        inside = requests.get(f"{stage.url}/json?inside").text
    outside = threading.Thread(
        target=lambda: seen.append(requests.get(f"{stage.url}/json?outside").text)
    )
    outside.start()
    outside.join()
    assert "inside" in inside
    assert ["outside" in text for text in seen] == [True]


# Other clients for the same request


def _by_urllib(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        data: bytes = response.read()
        return data


def _by_urllib3(url: str) -> bytes:
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url).data


def _by_requests(url: str) -> bytes:
    with _opened() as session:
        return session.get(url).content


def _by_stream(url: str) -> bytes:
    with _opened() as session, session.get(url, stream=True) as response:
        return b"".join(response.iter_content(None))


def _by_httpx(url: str) -> bytes:
    with httpx.Client(trust_env=False) as client:
        return client.get(url).content


_CLIENTS = [_by_urllib, _by_urllib3, _by_requests, _by_stream, _by_httpx]


@pytest.mark.soak
@pytest.mark.parametrize("path", ["json", "lines", "old", "bare/204", "trailers"])
@pytest.mark.parametrize("recording", _CLIENTS, ids=[one.__name__[4:] for one in _CLIENTS])
def test_what_one_client_recorded_another_replays(
    stage: Stage, recording: Callable[[str], bytes], path: str
) -> None:
    recorded = stage.record(lambda: recording(f"{stage.url}/{path}"))
    for replaying in some_with(recording, _CLIENTS):
        assert stage.replay(lambda: replaying(f"{stage.url}/{path}")) == recorded  # noqa: B023


# Nothing is left behind


def test_no_connection_is_left_open(stage: Stage) -> None:
    """Also by a program that leaves its responses to the garbage collector."""

    def program() -> Any:
        with _opened() as session:
            session.get(f"{stage.url}/json")
            forgotten = session.get(f"{stage.url}/lines", stream=True)
            first = next(forgotten.iter_content(None))
            forgotten.close()
            return first, session.get(f"{stage.url}/json").status_code

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorded = stage.record(program)
        assert stage.replay(program) == recorded
        gc.collect()
    assert [one for one in caught if issubclass(one.category, ResourceWarning)] == []
