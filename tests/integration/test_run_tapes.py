"""Net tapes: HTTP alone, in one readable file, while everything else of the program runs live."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve

from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

PROGRAM = """
    import os, subprocess, sys, time
    from urllib.request import Request, urlopen
    from ask import ask

    url = os.environ["SERVER"]
    secret = {"Authorization": "Bearer tr0ub4dor-and-3-more-words", "Content-Type": "application/json"}
    with urlopen(Request(f"{url}/echo?x=1", b'{"prompt": "hello"}', secret)) as answer:
        print(answer.status, len(answer.read()) > 300, flush=True)
    subprocess.run(["echo", "a process that runs live"])
    subprocess.run([sys.executable, "-c", "from ask import ask; print(ask('/json?child'))"])
    print(ask("/headers"))
    print(time.time_ns(), file=sys.stderr)
    sys.exit(3)
"""
COMMAND = ("--", sys.executable, "program.py")


@pytest.fixture(scope="module")
def recorded(stage: Theatre) -> Ran:
    stage.write("program.py", PROGRAM)
    return stage.run("--record-net-to", "t.jsonl", *COMMAND)


def _lines(tape: Path) -> list[Any]:
    return [json.loads(line) for line in tape.read_text("utf-8").splitlines()]


def test_what_was_asked_and_answered_stands_there_in_plain_words(
    recorded: Ran, stage: Theatre
) -> None:
    assert recorded.summary == "recorded 3 calls in 2 lanes to t.jsonl"
    calls = [one["data"] for one in _lines(stage.folder / "t.jsonl") if _is_call(one)]
    (first,) = [call for call in calls if call["op"] == "POST"]
    assert first["request"] == {
        "method": "POST",
        "url": f"{stage.server.url}/echo?x=1",
        "type": "json",
        "body": {"prompt": "hello"},
    }
    assert ["Content-Type", "application/json"] in first["sent"]["headers"]
    assert (first["response"]["status"], first["response"]["reason"]) == (200, "OK")
    assert [name for name, _ in first["response"]["headers"]] == ["X-Number", "Content-Length"]
    assert first["response"]["body"]["$json"]["target"] == "/echo?x=1"


def _is_call(line: Any) -> bool:
    return "data" in line and line["data"].get("source") == "network"


def test_there_is_one_file_and_no_secret_in_it(recorded: Ran, stage: Theatre) -> None:
    names = {place.name for place in stage.folder.iterdir()}
    assert {name for name in names if name.startswith("t.")} == {"t.jsonl"}
    assert "tr0ub4dor" not in (stage.folder / "t.jsonl").read_text("utf-8")


def test_it_replays_while_processes_run_live(recorded: Ran, stage: Theatre) -> None:
    connections = stage.server.connections
    ran = stage.run("--replay-net-from", "t.jsonl", "--report", "r.json", *COMMAND)
    assert stage.server.connections == connections
    assert (ran.code, ran.out) == (recorded.code, recorded.out) == (3, recorded.out)
    assert b"a process that runs live" in ran.out
    # The server has repeated a secret. Its placeholder is not as long, and the client must not mind.
    assert "a recorded answer has values that were redacted" in ran.err
    assert ran.summary == "replayed 3 calls in 2 lanes, 0 live, 0 unused"
    assert _clock(ran) > _clock(recorded)
    assert stage.report("r.json")["recording"].endswith("t.jsonl")


def _clock(ran: Ran) -> int:
    return next(int(line) for line in ran.err.splitlines() if line.isdecimal())


@pytest.mark.parametrize(
    "text, words",
    [
        ("ask('/json?other')", "event_"),
        ("socket.create_connection(url.split('/')[-1].split(':'))", "connects to 127.0.0.1"),
        ("subprocess.run(['curl', url])", "starts the process curl"),
    ],
    ids=["another call", "a socket", "curl"],
)
def test_network_that_is_not_on_the_tape_is_refused(
    text: str, words: str, recorded: Ran, stage: Theatre
) -> None:
    stage.write(
        "other.py",
        f"""
        import os, socket, subprocess
        from ask import ask
        url = os.environ["SERVER"]
        try:
            {text}
        except BaseException:
            pass
        """,
    )
    connections = stage.server.connections
    ran = stage.run("--replay-net-from", "t.jsonl", "--", sys.executable, "other.py")
    assert stage.server.connections == connections
    assert ran.code == 1
    assert words in ran.err


def test_replayed_as_a_whole_it_lacks_the_processes(recorded: Ran, stage: Theatre) -> None:
    ran = stage.run("--replay", "t.jsonl", *COMMAND)
    assert ran.code == 1
    assert "The program asks for the call process echo where the recording has" in ran.err


def _asking(*names: str) -> str:
    asked = "\n".join(f"print(ask('/json?{name}'))" for name in names)
    return f"import os, sys\nfrom ask import ask\n{asked}\nsys.exit(int(os.environ.get('CODE', 0)))"


def test_a_tape_is_made_anew_added_to_and_completed(theatre: Theatre) -> None:
    tape = theatre.folder / "t.jsonl"
    theatre.write("program.py", _asking("one"))
    first = theatre.run("--record-net-to", tape, *COMMAND)
    again = theatre.run("--record-net-to", tape, *COMMAND)
    assert again.code == 2
    assert "already holds a recording" in again.err
    second = theatre.run("--record-net-to", tape, "--overwrite", *COMMAND)
    assert second.out != first.out
    theatre.write("program.py", _asking("two"))
    third = theatre.run("--record-net-to", tape, "--append", *COMMAND)
    theatre.write("program.py", _asking("one", "two", "three"))
    fourth = theatre.run("--record-net-to", tape, "--mode", "record_missing", *COMMAND)
    assert fourth.out.startswith(second.out + third.out)
    kept = tape.read_bytes()
    failed = theatre.run("--record-net-to", tape, "--mode", "rewrite", *COMMAND, CODE="3")
    assert failed.code == 3
    assert "is unchanged, because the program failed" in failed.err
    assert tape.read_bytes() == kept
    theatre.server.begin_act()
    connections = theatre.server.connections
    last = theatre.run("--replay-net-from", tape, *COMMAND)
    assert last.own == fourth.own
    fifth = theatre.run("--record-net-to", tape, "--mode", "rewrite", *COMMAND)
    assert fifth.own == theatre.run("--replay-net-from", tape, *COMMAND).own
    assert fifth.out != fourth.out
    assert theatre.server.connections == connections + 3
    assert {place.name for place in theatre.folder.glob("t.*")} == {"t.jsonl"}


def test_websockets_are_on_the_tape(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os
        from websockets.sync.client import connect
        with connect(os.environ["SOCKET"]) as socket:
            for word in ("one", "two"):
                socket.send(word)
                print(socket.recv())
        """,
    )
    said: list[str] = []

    def answer(connection: ServerConnection) -> None:
        for message in connection:
            said.append(str(message))
            connection.send(f"{said[-1]} is number {len(said)}")

    with serve(answer, "127.0.0.1", 0) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        where = "ws://{}:{}".format(*server.socket.getsockname())
        recorded = theatre.run("--record-net-to", "t.jsonl", *COMMAND, SOCKET=where)
        server.shutdown()
        serving.join()
    assert recorded.own == (0, b"one is number 1\ntwo is number 2\n", "")
    replayed = theatre.run("--replay-net-from", "t.jsonl", *COMMAND, SOCKET=where)
    assert replayed.own == recorded.own
    assert said == ["one", "two"]


BORUNA = """
    import threading, urllib.request
    from urllib.request import Request, urlopen

    def ask(path, body=None, method="GET"):
        request = Request("http://boruna.test" + path, body, method=method)
        with urlopen(request) as answer:
            print(answer.status, answer.read().decode(), flush=True)

    ask("/poll")
    ask("/poll")
    thread = threading.Thread(target=ask, args=("/send", b"hello", "POST"))
    thread.start()
    thread.join()
"""
TAPE: dict[str, Any] = {
    "format_version": 1,
    "transactions": [
        {"method": "GET", "url": f"http://boruna.test{path}", "request_body": None, **answer}
        for path, answer in (
            ("/poll", {"response_body": "not yet"}),
            ("/poll", {"response_body": "token=sk-" + "Zq81" * 9}),
            ("/send", {"method": "post", "request_body": "hello", "response_body": "größe"}),
        )
    ],
}


@pytest.mark.parametrize("name", ["net.json", "net.tape"])
def test_a_net_tape_of_boruna_is_replayed_as_it_is(theatre: Theatre, name: str) -> None:
    theatre.write("program.py", BORUNA)
    content = json.dumps(TAPE, indent=2)
    theatre.write(name, content)
    ran = theatre.run("--replay-net-from", name, "--strict", *COMMAND)
    assert ran.out.decode() == f"200 not yet\n200 token=sk-{'Zq81' * 9}\n200 größe\n"
    assert ran.code == 0, ran.err
    assert ran.summary == "replayed 3 calls in 1 lane, 0 live, 0 unused"
    assert (theatre.folder / name).read_text("utf-8") == content
    assert sorted(one.name for one in theatre.folder.glob("net.*")) == [name]


def test_a_net_tape_of_boruna_is_replayed_in_its_order(theatre: Theatre) -> None:
    theatre.write("program.py", BORUNA)
    changed = [*reversed(TAPE["transactions"])]
    theatre.write("net.json", json.dumps({**TAPE, "transactions": changed}))
    folders = set(Path(tempfile.gettempdir()).glob("reenact-tape-*"))
    ran = theatre.run("--replay-net-from", "net.json", "--strict", "--report", "r.json", *COMMAND)
    assert ran.code == 1
    assert "event 1" in ran.err
    report = json.loads((theatre.folder / "r.json").read_text("utf-8"))
    assert report["recording"] == str(theatre.folder / "net.json")
    assert set(Path(tempfile.gettempdir()).glob("reenact-tape-*")) == folders


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("net.json", json.dumps({**TAPE, "format_version": 2}), "only 1 is known"),
        ("net.json", json.dumps({"format_version": 1}), "field transactions"),
        ("net.har", '{"log": {}}', "hint: if another tool wrote it: reenact import {path}"),
        ("net.rrbin", "\x00\x00", "hint: if another tool wrote it: reenact import {path}"),
    ],
)
def test_a_tape_that_cannot_be_replayed_names_the_reason_or_the_import(
    theatre: Theatre, name: str, content: str, said: str
) -> None:
    theatre.write("program.py", BORUNA)
    path = theatre.write(name, content)
    ran = theatre.run("--replay-net-from", name, *COMMAND)
    assert (ran.code, ran.out) == (3, b"")
    assert said.format(path=path) in ran.err
