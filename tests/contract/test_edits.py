"""A program that was changed: which changes are none, and what is said about the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reenact import Policy
from reenact.engine.divergence.model import Divergence
from reenact.policy.model import Ignore, NetRules
from tests.contract.clients.cases import every, some_with
from tests.contract.clients.every import able, named
from tests.contract.clients.face import Client, Pairs
from tests.contract.stage import Stage

pytestmark = pytest.mark.thinned(4)

JSON = ("Content-Type", "application/json")
REPRESENTATIVE = ("httpx2", "httpx-async", "requests", "urllib3", "aiohttp", "http.client")


def some() -> Any:
    """The test is run with a client of each kind."""
    return pytest.mark.parametrize("name", REPRESENTATIVE)


def _asked(stage: Stage, client: Client) -> Any:
    """A program of four calls; what it makes of them."""
    posted = client.fetch("POST", f"{stage.url}/echo", (JSON,), b'{"model": "m", "n": 1}')
    answers = [
        client.fetch("GET", f"{stage.url}/json?a=1&b=2"),
        client.fetch("GET", f"{stage.url}/json?a=1&b=2"),
        client.fetch("HEAD", f"{stage.url}/json"),
    ]
    told = [(answer.status, answer.body) for answer in (posted, *answers)]
    return told, b"".join(client.read(f"{stage.url}/lines"))


def _replayed(
    stage: Stage, then: Callable[[], Any], now: Callable[[], Any], **options: Any
) -> tuple[Any, Any]:
    """What ``then`` gave when it was recorded, and ``now`` from that recording."""
    return stage.record(then, **options), stage.replay(now, **options)


def _diverges(
    stage: Stage, then: Callable[[], Any], now: Callable[[], Any]
) -> tuple[Divergence, str]:
    """What is raised, and what it says, when ``now`` is run from the recording of ``then``."""
    stage.record(then)
    return stage.diverges(now)


def _policy(**said: Any) -> Policy:
    return Policy(id="edits", **said)


# The same requests, made in another way


@pytest.mark.soak
@every()
def test_another_library_makes_the_same_requests(stage: Stage, client: Client) -> None:
    recorded = stage.record(lambda: _asked(stage, client))
    for other in some_with(client, able()):
        replayed = stage.replay(partial(_asked, stage, other))
        assert replayed == recorded, f"recorded with {client.name}, replayed with {other.name}"


@pytest.mark.soak
@every()
def test_every_library_writes_it_in_its_own_way(stage: Stage, client: Client) -> None:
    """Parameters, JSON and forms are not the same bytes, and still the same request."""
    url = f"{stage.url}/json"
    recorded = stage.record(partial(client.convenient, url))
    for other in some_with(client, able()):
        replayed = stage.replay(partial(other.convenient, url))
        assert replayed == recorded, f"recorded with {client.name}, replayed with {other.name}"


@pytest.mark.soak
@every("multipart")
def test_a_form_of_several_parts_by_another_library(stage: Stage, client: Client) -> None:
    url = f"{stage.url}/status/200"
    recorded = stage.record(partial(client.multipart, url))
    for other in some_with(client, able("multipart")):
        replayed = stage.replay(partial(other.multipart, url))
        assert replayed.body == recorded.body, f"{client.name}, then {other.name}"


def _followed(stage: Stage, client: Client) -> bytes:
    return client.follow("GET", f"{stage.url}/chain/2")[-1].body


@pytest.mark.soak
@every("follow")
def test_redirects_followed_by_another_library(stage: Stage, client: Client) -> None:
    recorded = stage.record(partial(_followed, stage, client))
    for other in some_with(client, able("follow")):
        replayed = stage.replay(partial(_followed, stage, other))
        assert replayed == recorded, f"recorded with {client.name}, replayed with {other.name}"


def _with(stage: Stage, client: Client, headers: Pairs) -> Callable[[], Any]:
    return lambda: client.fetch("POST", f"{stage.url}/echo", headers, b'{"a": 1}').body


@some()
@pytest.mark.parametrize(
    "then,now",
    [
        pytest.param(
            (JSON, ("Authorization", "Bearer " + "sk-one-" + 20 * "a")),
            (JSON, ("Authorization", "Bearer " + "sk-two-" + 20 * "b")),
            id="credentials",
        ),
        pytest.param((JSON, ("Authorization", "Bearer x")), (JSON,), id="no-credentials"),
        pytest.param((JSON, ("User-Agent", "a/1")), (JSON, ("User-Agent", "b/2")), id="agent"),
        pytest.param((JSON, ("X-B", "2")), (("x-b", "2"), JSON), id="order-and-case"),
    ],
)
def test_headers_do_not_count(stage: Stage, name: str, then: Pairs, now: Pairs) -> None:
    client = named(name)
    recorded, replayed = _replayed(stage, _with(stage, client, then), _with(stage, client, now))
    assert replayed == recorded


def test_credentials_are_not_in_the_recording(stage: Stage) -> None:
    secret = "sk-one-" + 20 * "a"
    headers = (JSON, ("Authorization", f"Bearer {secret}"), ("Cookie", f"session={secret}"))
    stage.record(_with(stage, named("httpx"), headers))
    written = [path.read_bytes() for path in stage.folder.rglob("*") if path.is_file()]
    assert written
    assert not any(secret.encode() in data for data in written)


@some()
@pytest.mark.parametrize(
    "then,now",
    [
        pytest.param("/json?a=1&b=2", "/json?b=2&a=1", id="order-of-parameters"),
        pytest.param("/json?q=a%20b", "/json?q=a+b", id="escaping"),
        pytest.param("/json?q=%7e", "/json?q=~", id="needless-escaping"),
    ],
)
def test_the_same_address_in_other_words(stage: Stage, name: str, then: str, now: str) -> None:
    client = named(name)
    recorded, replayed = _replayed(
        stage,
        lambda: client.fetch("GET", stage.url + then).body,
        lambda: client.fetch("GET", stage.url + now).body,
    )
    assert replayed == recorded


@some()
@pytest.mark.parametrize(
    "kind,then,now",
    [
        pytest.param(JSON[1], b'{"a":1,"b":[1,2]}', b'{ "b" : [1, 2],\n"a": 1 }', id="json"),
        pytest.param(JSON[1], b'{"a":"\\u00e9"}', '{"a":"é"}'.encode(), id="json-escapes"),
        pytest.param("application/x-www-form-urlencoded", b"a=1&b=x+y", b"b=x%20y&a=1", id="form"),
        pytest.param(
            "multipart/form-data; boundary={}",
            b'--one\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--one--\r\n',
            b'--another\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--another--\r\n',
            id="boundary",
        ),
    ],
)
def test_the_same_body_in_other_words(
    stage: Stage, name: str, kind: str, then: bytes, now: bytes
) -> None:
    client = named(name)

    def post(body: bytes) -> Any:
        boundary = body.partition(b"\r\n")[0].decode()[2:]
        headers = (("Content-Type", kind.format(boundary)),)
        return client.fetch("POST", f"{stage.url}/status/200", headers, body).body

    recorded, replayed = _replayed(stage, lambda: post(then), lambda: post(now))
    assert replayed == recorded


# Other requests


@every()
def test_another_body_is_a_mismatch_with_the_place_and_both_values(
    stage: Stage, client: Client
) -> None:
    def post(text: str) -> Any:
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        return client.fetch("POST", f"{stage.url}/echo", (JSON,), body).body

    found, text = _diverges(stage, lambda: post("rain tomorrow?"), lambda: post("sun tomorrow?"))
    assert found.code == "event_payload_mismatch"
    assert found.json_path == "$.request.body.messages[0].content"
    for part in ("$.request.body.messages[0].content", "rain tomorrow?", "sun tomorrow?"):
        assert part in text


@some()
def test_another_address_is_a_mismatch(stage: Stage, name: str) -> None:
    client = named(name)
    found, text = _diverges(
        stage,
        lambda: client.fetch("GET", f"{stage.url}/json?page=1"),
        lambda: client.fetch("GET", f"{stage.url}/json?page=2"),
    )
    assert found.code == "event_payload_mismatch"
    assert found.json_path == "$.request.url"
    assert "page=1" in text
    assert "page=2" in text


@some()
def test_another_method_is_a_mismatch(stage: Stage, name: str) -> None:
    client = named(name)
    found, text = _diverges(
        stage,
        lambda: client.fetch("GET", f"{stage.url}/json"),
        lambda: client.fetch("DELETE", f"{stage.url}/json"),
    )
    assert found.code == "event_payload_mismatch"
    assert "$.request.method" in text


def _gets(stage: Stage, client: Client, count: int) -> Callable[[], Any]:
    return lambda: [client.fetch("GET", f"{stage.url}/json").body for _ in range(count)]


@every()
def test_one_call_more_is_unexpected(stage: Stage, client: Client) -> None:
    found, text = _diverges(stage, _gets(stage, client, 2), _gets(stage, client, 3))
    assert found.code == "event_unexpected"
    assert f"{stage.url}/json" in text


@every()
def test_one_call_less_is_missing(stage: Stage, client: Client) -> None:
    found, text = _diverges(stage, _gets(stage, client, 3), _gets(stage, client, 2))
    assert found.code == "event_missing"
    assert found.expected is not None
    assert found.expected.data["request"]["url"] == f"{stage.url}/json"
    assert f"event {found.event_seq}" in text


@every()
def test_a_program_cannot_swallow_it(stage: Stage, client: Client) -> None:
    def now() -> Any:
        for _ in range(3):
            try:
                client.fetch("GET", f"{stage.url}/json?other")
            except Exception:
                pass

    found, _ = _diverges(stage, _gets(stage, client, 1), now)
    assert found.code == "event_payload_mismatch"


@every()
def test_the_same_calls_at_once_are_in_other_lanes(stage: Stage, client: Client) -> None:
    """Who asks in a thread or a task of its own is another lane, and that is said; a policy that
    finds calls by what they ask does not mind."""
    urls = [f"{stage.url}/json?a", f"{stage.url}/json?b"]
    recorded = stage.record(partial(client.fetch_all, urls))
    found, _ = stage.diverges(partial(client.parallel, urls))
    assert found.code == "event_unexpected"
    assert found.lane != "0"
    assert found.nearest[0].lane == "0"
    assert stage.replay(partial(client.parallel, urls), policy=_policy(match="lookup")) == recorded


# What goes on all the same


@some()
def test_a_lenient_replay_goes_on(stage: Stage, name: str) -> None:
    client = named(name)
    first, second = stage.record(_gets(stage, client, 2))
    connections = stage.server.connections
    with stage.session("replay", strict=False, unused="allow") as session:
        mistaken = client.fetch("GET", f"{stage.url}/json?other").body
        right = client.fetch("GET", f"{stage.url}/json").body
    assert (mistaken, right) == (first, second)
    assert [one.code for one in session.divergences()] == ["event_payload_mismatch"]
    assert stage.server.connections == connections


@every()
def test_what_is_missing_is_added(stage: Stage, client: Client) -> None:
    def ask(*names: str) -> Callable[[], Any]:
        return lambda: [client.fetch("GET", f"{stage.url}/json?{name}").body for name in names]

    one, two = stage.record(ask("one", "two"))
    with stage.session("record_missing"):
        again = ask("one", "new", "two")()
    assert (again[0], again[2]) == (one, two)
    assert [asked.target for asked in stage.server.journal] == [
        "/json?one",
        "/json?two",
        "/json?new",
    ]
    assert stage.replay(ask("one", "new", "two")) == again


# What a policy says


@every()
def test_a_header_that_the_policy_names_counts(stage: Stage, client: Client) -> None:
    policy = _policy(key_headers=("X-Version",))

    def get(version: str) -> Any:
        return client.fetch("GET", f"{stage.url}/json", (("X-Version", version),)).body

    stage.record(lambda: get("1"), policy=policy)
    assert stage.replay(lambda: get("1"), policy=policy)
    found, _ = stage.diverges(lambda: get("2"), policy=policy)
    assert found.code == "event_payload_mismatch"
    assert (found.json_path or "").startswith("$.request.headers")


@some()
def test_what_the_policy_ignores_does_not_count(stage: Stage, name: str) -> None:
    client = named(name)
    policy = _policy(ignore=Ignore(query=("trace",), paths=("$.request.body.id",)))

    def post(number: int) -> Any:
        body = json.dumps({"id": number, "q": "same"}).encode()
        url = f"{stage.url}/status/200?trace={number}&q=1"
        return client.fetch("POST", url, (JSON,), body).body

    recorded, replayed = _replayed(stage, lambda: post(1), lambda: post(2), policy=policy)
    assert replayed == recorded


@every()
def test_a_host_that_the_policy_does_not_allow_is_not_asked(stage: Stage, client: Client) -> None:
    """It is refused with an exception of ours, which botocore wraps into one of its own."""
    policy = _policy(net=NetRules(domains=("example.org",)))
    stage.server.begin_act()
    connections = stage.server.connections
    with (
        pytest.raises(Exception, match=r"127\.0\.0\.1"),
        stage.session("record", policy=policy),
    ):
        client.fetch("GET", f"{stage.url}/json")
    assert stage.server.connections == connections
