"""Servers that misbehave: what the command line makes of them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reenact.cli._client import Client, refusal
from reenact.cli.server._replays import WAYS_OUT as COMMAND_WAYS_OUT
from reenact.cli.server._replays import not_completed, request_replay, wait_for
from reenact.errors import ReenactError, ServerMisused, ServerRefused, ServerUnusable, UsageError
from reenact.exchange.client.address import Secret, parse_address
from reenact.server.problems import STATUS
from reenact.server.web.replays.replay import WAYS_OUT
from tests.cli.conftest import Run

KEY = "-".join(["rnk", "user", "of", "nobody"])
Answer = Callable[[BaseHTTPRequestHandler], None]


class Scripted:
    """Answers each request with the next of ``answers``; keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(size)
                script.asked.append((f"{self.command} {self.path}", dict(self.headers.items())))
                script.answers.pop(0)(self)

            do_GET = do_POST = do_DELETE = _do

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: stderr is what the command says."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    server = Scripted()
    monkeypatch.setenv("REENACT_SERVER", server.url)
    monkeypatch.setenv("REENACT_API_KEY", KEY)
    yield server
    server.close()


def says(status: int, body: bytes | object, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    handler.close_connection = True


def problem(code: str, message: str = "no", hint: str = "") -> object:
    return {"error": {"code": code, "message": message, "hint": hint, "requestId": "req_1"}}


@pytest.mark.parametrize(
    "answer, code, words",
    [
        (hangs_up, 3, "cannot be asked"),
        (breaks_off, 3, "cannot be asked"),
        (says(200, b"<html>"), 3, "its response is not JSON"),
        (says(200, [1]), 3, "its list is none"),
        (says(302, b"", Location="http://elsewhere.example"), 3, "sends us elsewhere"),
        (says(500, problem("internal", "it broke")), 3, "it broke"),
        (says(502, b"bad gateway"), 3, "the server answered 502"),
        (says(401, problem("unauthenticated", "who?")), 4, "who?"),
        (says(403, problem("tier_required", "too low")), 4, "too low"),
        (says(409, problem("agent_offline", "gone")), 4, "gone"),
        (says(412, problem("not_replayable", "clipped")), 4, "clipped"),
        (says(429, problem("rate_limited", "slow"), Retry_After="7"), 4, "slow"),
        (says(410, problem("gone", "erased")), 3, "erased"),
        (says(404, problem("not_found", "nothing")), 2, "nothing"),
        (says(422, problem("payload_invalid", "bad \x1b[31m path")), 2, "bad \\u001b[31m path"),
    ],
)
def test_what_goes_wrong_has_words_a_hint_and_an_exit_code(
    answer: Answer, code: int, words: str, scripted: Scripted, run: Run
) -> None:
    scripted.answers = [answer]
    ran = run("exchange", "ls")
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert ran.hint
    assert KEY not in ran.err


def test_nobody_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("REENACT_API_KEY", KEY)
    ran = run("agents", "--json")
    assert ran.code == 3
    assert ran.json()["error"]["code"] == "server.unusable"
    assert ran.hint == "is the server running, and is this its address?"


def test_the_key_is_in_one_header(scripted: Scripted, run: Run) -> None:
    scripted.answers = [says(200, {"items": [], "next": None})]
    ran = run("exchange", "ls", "a b", "--app", "shop")
    assert ran.code == 0
    ((asked, headers),) = scripted.asked
    assert asked == "GET /api/v1/exchanges?app=shop&text=a+b&limit=50"
    assert headers["Authorization"] == f"Bearer {KEY}"


def test_lists_are_read_page_by_page(scripted: Scripted, run: Run) -> None:
    rows = [{"exchangeId": f"x-{n}"} for n in range(700)]
    scripted.answers = [
        says(200, {"items": rows[:500], "next": "c1"}),
        says(200, {"items": rows[500:], "next": "c2"}),
    ]
    ran = run("exchange", "ls", "--limit", 600, "--json")
    assert [one["exchangeId"] for one in ran.json_lines()] == [f"x-{n}" for n in range(600)]
    assert [asked.partition("?")[2] for asked, _ in scripted.asked] == [
        "limit=500",
        "limit=100&cursor=c1",
    ]


def test_a_key_is_not_sent_in_plain_text_over_a_network() -> None:
    with pytest.raises(UsageError, match="plain text"):
        Client(parse_address("http://reenact.example"), Secret(KEY))


@pytest.mark.parametrize(
    "status, kind",
    [(400, ServerMisused), (403, ServerRefused), (410, ServerUnusable), (503, ServerUnusable)],
)
def test_each_status_has_its_kind(status: int, kind: type[ReenactError]) -> None:
    found = refusal(status, b"no json", "30")
    assert type(found) is kind
    assert found.fields["status"] == status
    assert "30 s" in found.hint


@pytest.mark.parametrize("code, status", sorted(STATUS.items()))
def test_every_problem_of_a_server_has_a_way_out(code: str, status: int) -> None:
    path = "/api/v1/exchanges/x-1"
    found = refusal(status, json.dumps(problem(code)).encode(), path=path)
    own = refusal(status, json.dumps(problem("other")).encode(), path=path)
    assert found.fields["problem"] == code
    assert found.hint != own.hint
    assert (found.exit_code == 3) == (status >= 500 or status == 410)


@pytest.mark.parametrize(
    "path, words",
    [
        ("exchanges/x-1/replays", "reenact exchange ls"),
        ("replays/rpl_1", "reenact exchange replays"),
        ("captures/c", "reenact push"),
        ("users/u/grants/g", "reenact user ls"),
        ("keys/k", "reenact key ls"),
        ("tenants/t", "reenact tenant ls"),
        ("audit/proof/9", "reenact audit ls"),
    ],
)
def test_what_is_not_there_says_where_to_look(path: str, words: str) -> None:
    found = refusal(404, json.dumps(problem("not_found")).encode(), path=f"/api/v1/{path}")
    assert words in found.hint
    assert found.exit_code == 2


def test_hints_name_options_of_the_command_line() -> None:
    said = json.dumps(problem("reason_required", "a reason", "give a reason")).encode()
    assert refusal(422, said).hint == "say why: --reason TEXT"
    said = json.dumps(problem("tier_required", "no", "ask Ann")).encode()
    assert refusal(403, said).hint == "ask Ann"


def test_every_end_of_a_replay_that_the_protocol_knows_has_a_way_out() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/protocol.md").read_text("utf-8")
    rows = re.findall(r"^\| `(?:refused|failed)` \|.*?: (.*) \|$", page, re.MULTILINE)
    codes = [code for row in rows for code in re.findall(r"`(\w+)`", row) if code != "code"]
    assert {"busy", "agent_restarted", "internal"} <= {*codes}
    for code in (*codes, "not_delivered", "not_started", "not_finished"):
        replay = {"replayId": "rpl_1", "state": "failed", "code": code}
        other = {**replay, "code": "other"}
        same = code == "wrong_agent"
        assert (not_completed(replay).hint == not_completed(other).hint) == same, code


def _client(scripted: Scripted) -> Client:
    return Client(parse_address(scripted.url), Secret(KEY))


def test_a_question_whose_answer_was_lost_is_asked_again_as_the_same(scripted: Scripted) -> None:
    replay = {"replayId": "rpl_1", "state": "requested"}
    scripted.answers = [hangs_up, says(202, replay)]
    assert request_replay(_client(scripted), "x-1", {}) == replay
    keys = {headers["Idempotency-Key"] for _, headers in scripted.asked}
    assert (len(scripted.asked), len(keys)) == (2, 1)
    scripted.answers = [says(500, problem("internal"))]
    with pytest.raises(ServerUnusable):
        request_replay(_client(scripted), "x-1", {})


def test_a_stream_that_breaks_is_opened_again(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    def event(state: str) -> bytes:
        data = json.dumps({"replayId": "rpl_1", "state": state})
        return f"event: state\ndata: {data}\n\n".encode()

    scripted.answers = [
        says(200, b": hello\n\nevent: other\ndata: 1\n\n" + event("requested") + event("running")),
        says(200, b'event: state\ndata: {"repl'),
        says(200, {"replayId": "rpl_1", "state": "completed"}),
    ]
    done = wait_for(_client(scripted), {"replayId": "rpl_1", "state": "requested"})
    assert done["state"] == "completed"
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in said] == ["requested", "running", "completed"]


def test_an_answer_that_is_no_replay(scripted: Scripted, run: Run) -> None:
    scripted.answers = [says(202, {"ok": True})]
    ran = run("exchange", "replay", "x-1")
    assert ran.code == 3
    assert "is not a replay" in ran.err


def test_pages_know_a_way_out_of_all_that_commands_know_one_of() -> None:
    assert set(WAYS_OUT) == set(COMMAND_WAYS_OUT)
