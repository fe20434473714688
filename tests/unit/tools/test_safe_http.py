"""``web_fetch`` against a server on this machine: limits, redirects, addresses."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from reenact import Policy, PolicyRefused, tools
from reenact.errors import WebFailed
from reenact.policy.model import NetRules
from reenact.testing import memory_session
from reenact.tools.safe_http import Limits, send
from reenact.tools.web_tools import web_fetcher
from tests.contract.server import Exchange, Handler, Server

HTML = ("Content-Type", "text/html; charset=iso-8859-1")


def _page(exchange: Exchange) -> None:
    body = "<title>T</title><main><p>gr\xfc\xdf <a href='/b'>b</a></p></main>".encode("latin-1")
    exchange.answer("200 OK", body, HTML)


def _json(exchange: Exchange) -> None:
    exchange.answer("200 OK", b'{"b":1,"a":"\xc3\xbc"}', ("Content-Type", "application/json"))


def _plain(exchange: Exchange) -> None:
    kind = exchange.query("type", "text/plain")
    exchange.answer(
        "200 OK", b"a < b\n" * int(exchange.query("times", "1")), ("Content-Type", kind)
    )


def _packed(exchange: Exchange) -> None:
    body = gzip.compress(b"x" * 5_000)
    exchange.answer("200 OK", body, ("Content-Encoding", "gzip"), ("Content-Type", "text/plain"))


def _status(exchange: Exchange) -> None:
    exchange.answer(f"{exchange.query('code')} No", b"<p>sorry, <b>no</b></p>" * 900, HTML)


def _redirect(exchange: Exchange) -> None:
    status = exchange.query("status", "302")
    exchange.answer(f"{status} Go", b"", ("Location", exchange.query("to")))


def _loop(exchange: Exchange) -> None:
    exchange.answer("302 Go", b"", ("Location", f"/loop?n={exchange.number}"))


def _silent(exchange: Exchange) -> None:
    exchange.never()


def _echo(exchange: Exchange) -> None:
    said = [f"{name}: {value}" for name, value in exchange.asked.headers]
    text = "\n".join([exchange.asked.method, *said])
    exchange.answer("200 OK", text.encode(), ("Content-Type", "text/plain"))


HANDLERS: dict[str, Handler] = {
    "/page": _page,
    "/json": _json,
    "/plain": _plain,
    "/packed": _packed,
    "/status": _status,
    "/redirect": _redirect,
    "/loop": _loop,
    "/silent": _silent,
    "/echo": _echo,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(HANDLERS)
    yield server
    server.stop()


HERE = Limits(private_addresses=True)
fetch = web_fetcher(HERE)


def test_a_page_with_all_that_is_told_about_it(server: Server) -> None:
    found = fetch(f"{server.url}/page#part")
    assert found.pop("tookMs") >= 0
    assert found.pop("fetchedAt").endswith("+00:00")
    text = found.pop("text")
    assert f"\ngrüß [b]({server.url}/b)\n" in text
    assert found == {
        "url": f"{server.url}/page#part",
        "finalUrl": f"{server.url}/page",
        "status": 200,
        "contentType": "text/html",
        "title": "T",
        "extractMode": "markdown",
        "extractor": "html",
        "externalContent": {"untrusted": True, "source": "web_fetch", "wrapped": True},
        "truncated": False,
        "length": len(f"grüß [b]({server.url}/b)"),
        "rawLength": 59,
        "wrappedLength": len(text),
    }


@pytest.mark.parametrize(
    "path, extractor, inside",
    [
        ("/json", "json", '{\n  "b": 1,\n  "a": "ü"\n}'),
        ("/plain", "raw", "a < b"),
        ("/plain?type=text/markdown", "cf-markdown", "a < b"),
        ("/packed", "raw", "xxxxx"),
    ],
)
def test_other_kinds_of_content(server: Server, path: str, extractor: str, inside: str) -> None:
    found = fetch(f"{server.url}{path}", extractMode="text")
    assert (found["extractor"], found["extractMode"]) == (extractor, "text")
    assert inside in found["text"]


@pytest.mark.parametrize("asked, given", [(5, 100), (150, 150), (None, 50_000), (10**9, 50_000)])
def test_the_text_is_cut_where_asked(server: Server, asked: Any, given: int) -> None:
    found = fetch(f"{server.url}/plain?times=20000", maxChars=asked)
    assert (found["length"], found["truncated"]) == (given, True)
    assert "warning" not in found


def test_a_long_page_is_not_read_to_its_end(server: Server) -> None:
    small = web_fetcher(Limits(private_addresses=True, max_bytes=1_000))
    found = small(f"{server.url}/plain?times=2000")
    assert (found["rawLength"], found["truncated"]) == (1_000, True)
    assert "longer than 1,000 bytes" in found["warning"]


@pytest.mark.parametrize("code", [404, 500, 304])
def test_another_status_than_200_fails_with_a_short_detail(server: Server, code: int) -> None:
    with pytest.raises(WebFailed, match=f"the page answers {code}") as caught:
        fetch(f"{server.url}/status?code={code}")
    assert caught.value.details["status"] == code
    assert len(str(caught.value)) < 4_300


# Redirects


def test_redirects_are_followed_and_told(server: Server) -> None:
    found = fetch(f"{server.url}/redirect?to=/redirect?to=/plain")
    assert found["finalUrl"] == f"{server.url}/plain"


def test_after_three_redirects_it_is_enough(server: Server) -> None:
    with pytest.raises(WebFailed, match="more than 3 redirects"):
        fetch(f"{server.url}/loop")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://x.example/", "//", "http://:80/"])
def test_a_redirect_leads_to_the_web_only(server: Server, target: str) -> None:
    with pytest.raises(WebFailed):
        fetch(f"{server.url}/redirect?to={target}")


def test_a_name_and_a_password_stay_with_their_host(server: Server) -> None:
    host = server.url.removeprefix("http://")
    there = f"http://me:secret@{host}"
    assert "Authorization: Basic bWU6c2VjcmV0" in fetch(f"{there}/echo")["text"]
    assert "Authorization" in fetch(f"{there}/redirect?to=/echo")["text"]
    other = f"http://localhost:{server.port}/echo"
    assert "Authorization" not in fetch(f"{there}/redirect?to={other}")["text"]
    assert "secret" not in fetch(f"{there}/echo")["finalUrl"]


def test_a_redirect_to_another_host_drops_credentials(server: Server) -> None:
    other = f"http://localhost:{server.port}/echo"
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Kept": "1"}
    here = send("GET", f"{server.url}/redirect?to=/echo", headers=headers, limits=HERE)
    away = send("GET", f"{server.url}/redirect?to={other}", headers=headers, limits=HERE)
    assert "Authorization: Bearer x" in here.text()
    assert "X-Kept: 1" in away.text()
    assert not any(word in away.text() for word in ("Authorization", "Cookie"))


@pytest.mark.parametrize("status, method", [(302, "GET"), (307, "POST")])
def test_what_is_sent_along_goes_on_where_it_should(
    server: Server, status: int, method: str
) -> None:
    url = f"{server.url}/redirect?status={status}&to=/echo"
    assert send("POST", url, body=b"x", limits=HERE).text().startswith(f"{method}\n")


# Addresses


PRIVATE = """
http://127.0.0.1/ http://localhost/ http://[::1]/ http://[::ffff:127.0.0.1]/ http://0.0.0.0/
http://10.1.2.3/ http://172.16.0.1/ http://192.168.1.1/ http://169.254.169.254/latest/meta-data/
http://100.64.0.1/ http://[fe80::1]/ http://[fd00::1]/ http://224.0.0.1/ http://[ff02::1]/
http://[64:ff9b::7f00:1]/ http://[2002:7f00:1::]/ http://2130706433/ http://0x7f.1/
http://255.255.255.255/ http://[::]/
""".split()


@pytest.mark.parametrize("url", PRIVATE)
def test_private_addresses_are_refused(url: str) -> None:
    with pytest.raises((PolicyRefused, WebFailed)) as caught:
        tools.web_fetch(url)
    if isinstance(caught.value, WebFailed):
        # A spelling that this machine's resolver does not read leads nowhere at all.
        assert isinstance(caught.value.__cause__, socket.gaierror)
    else:
        assert "a live fetch must not connect to" in str(caught.value)


def test_a_redirect_to_a_private_address_is_refused(server: Server) -> None:
    """Also where this machine itself may be asked."""
    only_here = web_fetcher(Limits(networks=("127.0.0.1",)))
    assert only_here(f"{server.url}/plain")["status"] == 200
    with pytest.raises(PolicyRefused, match=r"169\.254\.169\.254"):
        only_here(f"{server.url}/redirect?to=http://169.254.169.254/")
    with pytest.raises(PolicyRefused, match="loopback"):
        only_here("http://127.0.0.2/")


def test_a_policy_may_allow_private_addresses(server: Server) -> None:
    url = f"{server.url}/plain"
    with memory_session(), pytest.raises(PolicyRefused):
        tools.web_fetch(url)
    allowing = Policy(id="p", net=NetRules(private_addresses=True))
    with memory_session(policy=allowing):
        assert tools.web_fetch(url)["status"] == 200


# Failures


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://x.example/", "http://", "http://a:99999/", "http://[/"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(WebFailed, match="invalid address"):
        tools.web_fetch(url)


def test_a_server_that_says_nothing_is_not_waited_for(server: Server) -> None:
    impatient = web_fetcher(Limits(private_addresses=True, timeout=0.2))
    with pytest.raises(
        WebFailed, match=r"nothing came back from 127\.0\.0\.1: it does not answer in time"
    ):
        impatient(f"{server.url}/silent")


def test_nobody_there() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(WebFailed, match="Connection refused"):
            fetch(f"http://127.0.0.1:{held.getsockname()[1]}/")


def test_proxy_of_the_environment_is_used_on_request_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    with pytest.raises(WebFailed):
        send("GET", "http://nowhere.invalid/page")
    answer = send("GET", "http://nowhere.invalid/page", limits=Limits(proxies=True))
    assert answer.status == 200
    with pytest.raises(PolicyRefused):
        send("GET", "http://10.0.0.1/page", limits=Limits(proxies=True))
