"""Every client, every kind of answer: as it is, recorded, and replayed from the recording."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients.cases import every
from tests.contract.clients.every import can
from tests.contract.clients.face import VALUE, Answer, Client
from tests.contract.endpoints import ENDPOINTS, TEXT
from tests.contract.server import Server
from tests.contract.stage import Stage

pytestmark = pytest.mark.thinned(3)


def _json(answer: Answer) -> Any:
    return json.loads(answer.body)


def _decoded(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else zlib.decompress(body)


@every()
def test_an_answer_is_the_same_in_every_detail(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/json?a=1"))
    assert _json(answer) == {"n": "000001", "target": "/json?a=1"}
    assert answer.status == 200
    assert ("X-Number", "000001") in answer.headers
    [call] = stage.calls()
    assert call.data["request"] == {"method": "GET", "url": f"{stage.url}/json?a=1"}
    assert call.data["response"]["status"] == 200


@every()
def test_an_answer_needs_no_server_once_it_is_recorded(stage: Stage, client: Client) -> None:
    stopped = Server(ENDPOINTS)
    url = f"{stopped.url}/json"

    def program() -> Answer:
        return client.fetch("GET", url)

    with stage.session("record"):
        recorded = program()
    stopped.stop()
    assert stage.replay(program) == recorded


@every()
def test_the_shortest_way_to_ask(stage: Stage, client: Client) -> None:
    assert b"000001" in stage.check(lambda: client.brief(f"{stage.url}/json"))


@every()
def test_a_status_comes_with_its_reason_and_its_body(stage: Stage, client: Client) -> None:
    codes = [200, 404, 429, 500, 503]
    answers = stage.check(
        lambda: [client.fetch("GET", f"{stage.url}/status/{code}") for code in codes]
    )
    assert [answer.status for answer in answers] == codes
    assert [_json(answer)["n"] for answer in answers] == [f"{n:06d}" for n in range(1, 6)]
    if can(client, "reason"):
        assert [answer.reason for answer in answers] == [f"Because {code}" for code in codes]


@every()
def test_an_answer_without_a_body(stage: Stage, client: Client) -> None:
    codes = [200, 204, 304]
    answers = stage.check(
        lambda: [client.fetch("GET", f"{stage.url}/bare/{code}") for code in codes]
    )
    assert [(answer.status, answer.body) for answer in answers] == [(code, b"") for code in codes]
    assert all(("ETag", '"x"') in answer.headers for answer in answers)


@every()
def test_the_head_of_an_answer_alone(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("HEAD", f"{stage.url}/json"))
    assert answer.body == b""
    assert dict(answer.headers)["Content-Length"] == "34"


@every()
def test_headers_keep_their_order_their_case_and_their_repetitions(
    stage: Stage, client: Client
) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/headers"))
    said = "; ".join(f"{name}: {value}" for name, value in answer.headers)
    for part in ("sEt-CoOkIe: first=000001", "x-Lower-And-UPPER: Mixed", "second=b", "X-Empty: "):
        assert part in said
    assert said.index("one") < said.index("two")
    [call] = stage.calls()
    assert [name for name, _ in call.data["response"]["headers"]].count("X-A") == 2


@every()
def test_cookies_are_the_business_of_the_client(stage: Stage, client: Client) -> None:
    def program() -> Any:
        answers = client.fetch_all([f"{stage.url}/headers", f"{stage.url}/echo"])
        return [value for name, value in _json(answers[1])["headers"] if name == "cookie"]

    assert stage.check(program) in ([], ["first=000001; second=b"])


@every("version")
def test_the_version_of_the_protocol_is_kept(stage: Stage, client: Client) -> None:
    answers = stage.check(
        lambda: [client.fetch("GET", f"{stage.url}/{path}") for path in ("old", "json")]
    )
    old, new = answers
    assert old.body == b"old 000001"
    assert (old.version or "").endswith(("1.0", "10"))
    assert (new.version or "").endswith(("1.1", "11"))
    assert [call.data["response"]["version"] for call in stage.calls()] == ["HTTP/1.0", "HTTP/1.1"]


@every()
def test_an_answer_that_ends_with_its_connection(stage: Stage, client: Client) -> None:
    assert stage.check(lambda: client.fetch("GET", f"{stage.url}/old")).body == b"old 000001"


@every()
def test_a_megabyte_of_every_byte(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/binary"))
    assert answer.body == b"000001" + bytes(range(256)) * 4096


@every()
def test_an_encoded_answer(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/encoded/{one}" for one in ("gzip", "deflate", "gzip?pieces=1")]
    answers = stage.check(lambda: [client.fetch("GET", url).body for url in urls])
    if not can(client, "decode"):
        answers = [_decoded(answer) for answer in answers]
    assert [answer.decode() for answer in answers] == [f"{n:06d} {TEXT}" for n in range(1, 4)]


@every()
def test_an_encoded_answer_as_it_came(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/encoded/{coding}" for coding in ("gzip", "deflate")]
    answers = stage.check(lambda: [b"".join(client.read(url, raw=True)) for url in urls])
    assert [_decoded(answer).decode() for answer in answers] == [f"00000{n} {TEXT}" for n in (1, 2)]


@every()
def test_trailers_do_not_disturb(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return client.fetch_all([f"{stage.url}/trailers", f"{stage.url}/json"])

    trailed, after = stage.check(program)
    assert trailed.body == b"body 000001"
    assert _json(after)["n"] == "000002"


@every()
def test_a_connection_that_the_server_closes(stage: Stage, client: Client) -> None:
    def program() -> Any:
        return client.fetch_all([f"{stage.url}/close"] * 3)

    answers = stage.check(program)
    assert [_json(answer)["n"] for answer in answers] == ["000001", "000002", "000003"]


@every("reuse")
def test_a_connection_is_used_again_while_recording(stage: Stage, client: Client) -> None:
    urls = [f"{stage.url}/json?{number}" for number in range(3)]
    used: list[set[int]] = []

    def program() -> Any:
        answers = client.fetch_all(urls)
        used.append({asked.connection for asked in stage.server.journal})
        return answers

    stage.check(program)
    plain, recorded, replayed = used
    assert (len(plain), len(recorded), replayed) == (1, 1, set())


@every()
def test_polling_sees_the_answer_change(stage: Stage, client: Client) -> None:
    def program() -> Any:
        seen: list[Any] = []
        while not seen or seen[-1]["state"] != "ready":
            seen.append(_json(client.fetch("GET", f"{stage.url}/poll")))
        return seen

    seen = stage.check(program)
    assert [one["state"] for one in seen] == ["pending", "pending", "ready"]
    assert [one["n"] for one in seen] == ["000001", "000002", "000003"]


# Redirects


@every("follow")
def test_a_redirect_is_two_calls(stage: Stage, client: Client) -> None:
    codes = [301, 302, 303, 307, 308]
    told = stage.check(
        lambda: [client.follow("GET", f"{stage.url}/redirect/{code}") for code in codes]
    )
    assert [_json(answers[-1])["target"] for answers in told] == [f"/echo?by={c}" for c in codes]
    if can(client, "history"):
        assert [[answer.status for answer in one] for one in told] == [[c, 200] for c in codes]
    made = {call.data["request"]["url"]: call.data["response"]["status"] for call in stage.calls()}
    moved = {f"{stage.url}/redirect/{code}": code for code in codes}
    assert made == moved | {f"{stage.url}/echo?by={code}": 200 for code in codes}


@every("follow")
def test_a_redirect_changes_the_method_as_the_client_does(stage: Stage, client: Client) -> None:
    answers = stage.check(lambda: client.follow("POST", f"{stage.url}/redirect/303"))
    assert _json(answers[-1])["method"] == "GET"
    assert {call.data["request"]["method"] for call in stage.calls()} == {"POST", "GET"}


@every("follow")
def test_a_chain_of_relative_redirects(stage: Stage, client: Client) -> None:
    answers = stage.check(lambda: client.follow("GET", f"{stage.url}/chain/3"))
    assert _json(answers[-1])["n"] == "000004"
    urls = {call.data["request"]["url"].removeprefix(stage.url) for call in stage.calls()}
    assert urls == {"/chain/3", "/chain/2?from=000001", "/chain/1?from=000002", "/json"}


@every()
def test_a_redirect_that_is_not_followed(stage: Stage, client: Client) -> None:
    answer = stage.check(lambda: client.fetch("GET", f"{stage.url}/redirect/302"))
    assert (answer.status, answer.body) == (302, b"moved")
    assert dict(answer.headers)["Location"] == "/echo?by=302"


# Requests with a body


@every()
def test_a_body_arrives_and_counts(stage: Stage, client: Client) -> None:
    methods = ["POST", "PUT", "PATCH", "DELETE"]
    headers = (("Content-Type", "application/json"), ("X-Extra", "kept"))
    body = b'{"b": [1, 2.5, null], "a": "gr\xc3\xbcn"}'
    url = f"{stage.url}/echo"
    answers = stage.check(
        lambda: [_json(client.fetch(method, url, headers, body)) for method in methods]
    )
    assert [answer["method"] for answer in answers] == methods
    assert {answer["body"].encode("latin-1") for answer in answers} == {body}
    assert all(["x-extra", "kept"] in answer["headers"] for answer in answers)
    for call in stage.calls():
        assert call.data["request"]["type"] == "json"
        assert call.data["request"]["body"] == {"a": "grün", "b": [1, 2.5, None]}
        sent = [[name.lower(), value] for name, value in call.data["sent"]["headers"]]
        assert ["x-extra", "kept"] in sent


@every()
def test_bytes_are_sent_as_they_are(stage: Stage, client: Client) -> None:
    body = bytes(range(256)) * 50
    headers = (("Content-Type", "application/octet-stream"),)
    answer = stage.check(lambda: client.fetch("PUT", f"{stage.url}/echo", headers, body))
    assert _json(answer)["body"].encode("latin-1") == body


@every()
def test_a_body_that_is_made_while_it_is_sent(stage: Stage, client: Client) -> None:
    pieces = [b"one,", b"t\xc3\xbc", b",three" * 1000]
    answer = stage.check(lambda: client.upload(f"{stage.url}/echo", pieces))
    assert _json(answer)["body"].encode("latin-1") == b"".join(pieces)
    [call] = stage.calls()
    assert call.data["request"]["body"] == b"".join(pieces).decode()


@every("file")
def test_an_open_file_is_sent_and_left_as_the_library_leaves_it(
    stage: Stage, client: Client, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 20
    (tmp_path / "file").write_bytes(content)

    def program() -> Any:
        with (tmp_path / "file").open("rb") as file:
            answer = client.send_file(f"{stage.url}/echo", file)
            return _json(answer)["body"], file.closed or file.tell()

    body, at = stage.check(program)
    assert body.encode("latin-1") == content
    assert at in (len(content), True)


@every()
def test_parameters_json_and_forms(stage: Stage, client: Client) -> None:
    bodies = stage.check(lambda: client.convenient(f"{stage.url}/json"))
    assert [json.loads(body)["n"] for body in bodies] == ["000001", "000002", "000003"]
    asked, posted, form = (call.data["request"] for call in stage.calls())
    assert asked["url"] == f"{stage.url}/json?a=&b=2&q=a%20b%26%C3%BC~"
    assert posted["body"] == VALUE
    assert form["body"] == [["a", "1"], ["b", "x y/ü"]]


@every("multipart")
def test_a_form_of_several_parts(stage: Stage, client: Client) -> None:
    def program() -> Any:
        got = _json(client.multipart(f"{stage.url}/echo"))
        return got["n"], len(got["body"]), "grün".encode() in got["body"].encode("latin-1")

    _, _, has_field = stage.check(program)
    assert has_field
    [call] = stage.calls()
    assert call.data["request"]["type"] == "multipart"
    assert len(call.data["request"]["body"]) == 2
