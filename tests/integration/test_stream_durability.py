"""Streams on disk: each piece before the program sees it, none of them twice, no secret ever.

A copy of the files at some instant is what a kill at that instant leaves. Secrets are put together
from halves.
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

import reenact
from reenact import DivergenceError, Session, open_recording, verify
from reenact.boundaries.http.api import Head, Request, ask
from reenact.cli.main import main as reenact_command
from reenact.store.recover import Recovery, recover
from reenact.store.stream_journal import journal_path
from tests.clocks import start_clock
from tests.integration.processes import Acks, start_program

CONTAINERS = ["capture", "tape"]
REQUEST = Request(method="GET", url="http://example.test/feed")
HEAD = Head(status=200, headers=(("content-type", "text/event-stream"),))
TOKEN = "sk-" + "Zz9Planted0SecretXx7"


def _place(folder: Path, container: str, name: str = "run") -> Path:
    return folder / (f"{name}.jsonl" if container == "tape" else name)


def _open(place: Path, mode: str = "record", **options: Any) -> Session:
    where: dict[str, Any] = {"tape" if place.suffix else "capture": place}
    given = {"seal": False, "redaction": "default", "strict": True, **options}
    return reenact.session(mode=mode, **where, **given)


def _live(pieces: list[Any], head: Head = HEAD) -> Callable[[], Iterator[Any]]:
    def live() -> Iterator[Any]:
        yield head
        yield from pieces

    return live


def _read(session: Session, pieces: list[Any], head: Head = HEAD) -> Generator[bytes, None, None]:
    reply = ask(session, REQUEST, _live(pieces, head))
    yield from reply


def _events(count: int, size: int = 20) -> list[bytes]:
    return [
        f"data: {number:03d} ".encode() + b"x" * (size - 12) + b"\n\n" for number in range(count)
    ]


class Killed:
    """A recording as a kill leaves it, recovered."""

    def __init__(self, place: Path, copy: Path) -> None:
        copy.parent.mkdir(parents=True)
        for left in (place, place.with_name(f"{place.name}.part"), _part_journal(place)):
            if left.is_dir():
                shutil.copytree(left, copy)
            elif left.exists():
                shutil.copy(left, copy.with_name(left.name))
        self.place = copy
        self.files = {file: file.read_bytes() for file in copy.parent.rglob("*") if file.is_file()}
        self.report: Recovery = recover(copy, start_clock())
        verify(copy)

    def streams(self) -> list[dict[str, Any]]:
        with open_recording(self.place) as source:
            return [event.data for event in source if "ended" in event.data]

    def replayed(self) -> list[bytes]:
        """What a replay gives before it says that there is no more."""
        seen: list[bytes] = []
        killed = pytest.raises(DivergenceError, match="killed here")
        with killed, _open(self.place, "replay") as session:
            seen.extend(_read(session, []))
        return seen


def _part_journal(place: Path) -> Path:
    return journal_path(place.with_name(f"{place.name}.part"))


# Killed


class _Feed(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pieces = _events(8)
    goes_on = Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("set-cookie", "sid=" + TOKEN)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in self.pieces[:5]:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.goes_on.wait(60)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """It has nothing to say."""


@pytest.fixture
def feed() -> Iterator[str]:
    """A server that sends five pieces and then stops talking."""
    _Feed.goes_on.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Feed)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/feed"
    _Feed.goes_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_model_that_was_cut_off_in_the_middle_of_its_answer(
    container: str, tmp_path: Path
) -> None:
    body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}'
    question = Request(
        method="POST",
        url="http://example.test/v1/chat/completions",
        headers=(("content-type", "application/json"),),
        body=body,
    )
    place, pieces = _place(tmp_path, container), _events(4)
    with _open(place) as session:
        reply = iter(ask(session, question, _live(pieces)))
        seen = [next(reply) for _ in range(3)]
        killed = Killed(place, _place(tmp_path / "killed", container))
        assert [*seen, *reply] == pieces
    with open_recording(killed.place) as source:
        asked, answered = (event for event in source if event.type.startswith("llm_"))
    assert (answered.parent, answered.data["ended"]) == (asked.seq, "unfinished")
    assert (answered.data["stopReason"], answered.data["usage"]) == (None, None)
    again: list[bytes] = []
    cut_off = pytest.raises(DivergenceError, match="killed here")
    with cut_off, _open(killed.place, "replay") as session:
        again.extend(ask(session, question, _live([])))
    assert again == seen


@pytest.mark.parametrize("container", CONTAINERS)
def test_kill_9_in_the_middle_of_a_stream_loses_nothing_that_was_seen(
    container: str, tmp_path: Path, feed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place = _place(tmp_path, container)
    with Acks(tmp_path / "pipe") as acks:
        child = start_program("stream_until_killed", feed, container, place, acks.path, "3")
        try:
            acks.wait_for_pids(1)
            acks.wait_for(3)
        finally:
            child.kill()
            child.communicate()
        acks.rest()
    assert reenact_command(["recover", str(place)]) == 0
    assert "1 call without a complete response" in capfd.readouterr().out
    verify(place)
    assert reenact_command(["show", str(place)]) == 0
    assert "unfinished GET" in capfd.readouterr().out
    with open_recording(place) as source:
        [call] = [event.data for event in source if "request" in event.data]
    assert call["request"] == {"method": "GET", "url": feed}
    assert call["response"]["body"].encode() == b"".join(_Feed.pieces[:3])
    assert TOKEN not in str(call)
    seen: list[bytes] = []
    killed = pytest.raises(DivergenceError, match="killed here")
    with killed, _open(place, "replay", warn=str), httpx.stream("GET", feed) as response:
        seen.extend(response.iter_raw())
    assert seen == _Feed.pieces[:3]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_kill_at_any_piece_leaves_what_was_seen(container: str, tmp_path: Path) -> None:
    place, pieces = _place(tmp_path, container), _events(6)
    left: list[Killed] = []
    with _open(place) as session:
        for number, _ in enumerate(_read(session, pieces), 1):
            left.append(Killed(place, _place(tmp_path / f"at {number}", container)))
    for number, killed in enumerate(left, 1):
        assert killed.report.unfinished == 1
        [data] = killed.streams()
        assert data["ended"] == "unfinished"
        assert data["position"] == 0
        assert len(data["timing"]["offsets"]) == number + 1
        assert killed.replayed() == pieces[:number]


def test_a_kill_before_the_head_leaves_a_call_that_was_under_way(tmp_path: Path) -> None:
    place = tmp_path / "run"
    left: list[Killed] = []

    def live() -> Iterator[Any]:
        left.append(Killed(place, tmp_path / "at" / "run"))
        yield HEAD

    with _open(place) as session:
        ask(session, REQUEST, live).close()
    with open_recording(left[0].place) as source:
        [event] = list(source)
    assert event.data["unfinished"] is True
    assert event.data["request"]["url"] == REQUEST.url


def test_streams_of_other_values_survive_as_well(tmp_path: Path) -> None:
    values = ["a ", b"\xff ", {"text": "b "}, 7, {"n": [1, None]}]
    place = tmp_path / "run"
    with _open(place) as session:
        stream = session.stream("words", {}, lambda: iter(values))
        seen = [next(stream) for _ in values]
        left = Killed(place, tmp_path / "at" / "run")
    assert seen == values
    [data] = left.streams()
    assert data["response"] == {"chunks": values}


def test_streams_in_several_lanes_are_recovered_in_the_order_of_their_pieces(
    tmp_path: Path,
) -> None:
    place = tmp_path / "run"

    def read(session: Session, name: str) -> Any:
        return session.stream("feed", {"name": name}, lambda: iter(["a ", "b ", "c "]))

    def both(session: Session) -> list[tuple[str, Any]]:
        one, other = read(session, "one"), read(session, "other")
        turns = [("one", one), ("other", other), ("other", other), ("one", one)]
        return [(name, next(stream)) for name, stream in turns]

    with _open(place) as session:
        story = both(session)
        left = Killed(place, tmp_path / "at" / "run")
    assert left.report.unfinished == 2
    with _open(left.place, "replay", unused="allow") as session:
        assert both(session) == story
    with open_recording(left.place) as source:
        told = [event.data["key"] for event in source if event.data["source"] == "schedule"]
    assert told == ["chunk:0:0", "chunk:1:0", "chunk:0:1"]


def test_what_was_recorded_beside_an_unfinished_stream_keeps_its_place(tmp_path: Path) -> None:
    place = tmp_path / "run"

    def program(session: Session) -> list[Any]:
        stream = session.stream("feed", {}, lambda: iter(["a ", "b ", "c "]))
        first = next(stream)
        between = session.call("between", {}, lambda: 1)
        return [first, between, next(stream)]

    with _open(place) as session:
        story = program(session)
        left = Killed(place, tmp_path / "at" / "run")
    with _open(left.place, "replay") as session:
        assert program(session) == story


# Recovering


def test_a_recovery_that_was_killed_is_done_again_and_adds_nothing_twice(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with _open(place) as session:
        stream = _read(session, _events(4))
        next(stream)
        shutil.copytree(place, tmp_path / "left")
        stream.close()
    journal = journal_path(tmp_path / "left" / "events.jsonl")
    kept = journal.read_bytes()
    assert recover(tmp_path / "left", start_clock()).unfinished == 1
    once = (tmp_path / "left" / "events.jsonl").read_bytes()
    (tmp_path / "left" / "manifest.json").unlink()
    journal.write_bytes(kept)
    assert recover(tmp_path / "left", start_clock()).unfinished == 0
    assert (tmp_path / "left" / "events.jsonl").read_bytes() == once
    assert not journal.exists()


@pytest.mark.parametrize(
    "bad",
    [b"", b"{", b"[]\n", b'{"id":1}\n', b'{"id":[],"seq":3}\n', b"\xff\n", b'{"id":9,"seq":1}\n'],
)
def test_a_journal_that_is_damaged_costs_what_cannot_be_read(bad: bytes, tmp_path: Path) -> None:
    place = tmp_path / "run"
    with _open(place) as session:
        stream = _read(session, _events(4))
        next(stream)
        shutil.copytree(place, tmp_path / "left")
        stream.close()
    with journal_path(tmp_path / "left" / "events.jsonl").open("ab") as file:
        file.write(bad)
    assert recover(tmp_path / "left", start_clock()).unfinished == 1
    assert verify(tmp_path / "left").manifest.event_count == 2


def test_a_stream_that_was_complete_is_not_recovered_twice(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with _open(place) as session:
        other = session.stream("other", {}, lambda: iter(["a ", "b "]))
        next(other)
        assert list(_read(session, _events(3))) == _events(3)
        left = Killed(place, tmp_path / "at" / "run")
        list(other)
    assert left.report.unfinished == 1
    assert sorted(data["ended"] for data in left.streams()) == ["done", "unfinished"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_killed_in_its_stream_leaves_it_to_the_capture(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with _open(place) as session:
        pid = os.fork()
        if not pid:
            stream = _read(session, _events(4))
            next(stream)
            next(stream)
            os.kill(os.getpid(), 9)
        os.waitpid(pid, 0)
    verify(place)
    with open_recording(place) as source:
        [data] = [event.data for event in source if "ended" in event.data]
        assert source.manifest().status == "ok"
    assert data["ended"] == "unfinished"
    assert data["response"]["body"].encode() == b"".join(_events(2))


def test_a_recovered_stream_is_recorded_again_where_it_is_missing(tmp_path: Path) -> None:
    place, pieces = tmp_path / "run", _events(4)
    with _open(place) as session:
        stream = _read(session, pieces)
        next(stream)
        left = Killed(place, tmp_path / "at" / "run")
        stream.close()
    with _open(left.place, "record_missing") as session:
        assert list(_read(session, pieces)) == pieces
    with _open(left.place, "replay") as session:
        assert list(_read(session, [])) == pieces


# Secrets


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("cut", range(1, len(TOKEN), 4))
def test_no_part_of_a_secret_that_is_cut_in_two_is_ever_on_disk(
    cut: int, container: str, tmp_path: Path
) -> None:
    place = _place(tmp_path, container)
    secret = TOKEN.encode()
    pieces = [b"data: one\n\n", b"data: " + secret[:cut], secret[cut:] + b"\n\n", b"data: end\n\n"]
    left: list[Killed] = []
    with _open(place) as session:
        for number, _ in enumerate(_read(session, pieces), 1):
            left.append(Killed(place, _place(tmp_path / f"at {number}", container)))
    for killed in left:
        for content in killed.files.values():
            assert secret[: max(cut, 6)] not in content
            assert secret[-8:] not in content
        [data] = killed.streams()
        assert data["response"]["body"].startswith("data: one\n\n")


def test_a_cookie_in_the_head_is_redacted_before_it_is_written(tmp_path: Path) -> None:
    place = tmp_path / "run"
    head = Head(status=200, headers=(("set-cookie", f"sid={TOKEN}; Path=/"),))
    with _open(place) as session:
        stream = _read(session, _events(3), head)
        next(stream)
        left = Killed(place, tmp_path / "at" / "run")
        stream.close()
    assert all(TOKEN.encode() not in content for content in left.files.values())
    [data] = left.streams()
    assert data["redacted"] == ["$.response.headers[0][1]"]


def _gzipped(*texts: bytes) -> list[bytes]:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    pieces = [packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH) for text in texts]
    return [*pieces, packer.flush()]


def test_an_encoded_body_is_written_as_far_as_its_text_may_be(tmp_path: Path) -> None:
    place = tmp_path / "run"
    head = Head(status=200, headers=(("content-encoding", "gzip"),))
    secret = b"data: " + TOKEN.encode() + b"\n\n"
    pieces = _gzipped(b"data: one\n\n", b"data: two\n\n", secret, b"data: end\n\n")
    left: list[Killed] = []
    with _open(place) as session:
        for number, _ in enumerate(_read(session, pieces, head), 1):
            left.append(Killed(place, tmp_path / f"at {number}" / "run"))
    assert [killed.replayed() for killed in left[:2]] == [pieces[:1], pieces[:2]]
    for killed in left[2:]:
        [data] = killed.streams()
        body = data["response"]["body"]
        assert (
            zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body)
            == b"data: one\n\ndata: two\n\n"
        )


def test_a_body_whose_coding_cannot_be_undone_in_pieces_is_not_written_early(
    tmp_path: Path,
) -> None:
    place = tmp_path / "run"
    head = Head(status=200, headers=(("content-encoding", "br"),))
    with _open(place) as session:
        stream = _read(session, [b"\x0b\x02\x80abc", b"\x03"], head)
        next(stream)
        left = Killed(place, tmp_path / "at" / "run")
        stream.close()
    [data] = left.streams()
    assert data["response"]["status"] == 200
    assert "body" not in data["response"]


# Finished


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("size", [100, 400])
def test_a_finished_stream_costs_little_more_than_its_content(
    size: int, container: str, tmp_path: Path
) -> None:
    place, pieces = _place(tmp_path, container), _events(400, size)
    with _open(place) as session:
        assert list(_read(session, pieces)) == pieces
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file.name for file in files if "streams" in file.name]
    stored = sum(file.stat().st_size for file in files)
    assert stored < 1.3 * sum(map(len, pieces)) + 4_000
    verify(place)


def test_pieces_that_come_one_after_the_other_are_one_event(tmp_path: Path) -> None:
    with _open(tmp_path / "run") as session:
        list(_read(session, _events(50)))
    with open_recording(tmp_path / "run") as source:
        told = [event.data for event in source if event.data["source"] == "schedule"]
    assert [(data["key"], data["count"]) for data in told] == [("chunk:0:0", 51)]


def test_a_journal_that_has_grown_is_emptied_when_no_stream_is_open(tmp_path: Path) -> None:
    place = tmp_path / "run"
    sizes = []
    with _open(place) as session:
        for _ in range(40):
            list(_read(session, _events(50)))
            sizes.append(journal_path(place / "events.jsonl").stat().st_size)
    assert max(sizes) < 64 * 1024 + 2 * sizes[0] < len(sizes) * sizes[0]
    assert sizes[0] > 0


def test_two_recordings_and_a_recorded_replay_have_one_content_hash(tmp_path: Path) -> None:
    pieces = _events(20)

    def program(session: Session) -> list[bytes]:
        return [*_read(session, pieces), *_read(session, pieces)]

    hashes = []
    for name in ("one", "two"):
        with _open(tmp_path / name) as session:
            program(session)
        hashes.append(session.manifest)
    with _open(tmp_path / "one", "replay", into=tmp_path / "again") as session:
        assert program(session) == pieces + pieces
    hashes.append(session.manifest)
    assert len({manifest.integrity.content_hash for manifest in hashes if manifest}) == 1
    verify(tmp_path / "again")


def test_a_discarded_recording_leaves_no_journal(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with _open(place) as session:
        list(_read(session, _events(3)))
    failing = pytest.raises(RuntimeError, match="enough")
    with failing, _open(place, "rewrite", warn=str) as session:
        next(_read(session, _events(3)))
        raise RuntimeError("enough")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run"]
    assert sorted(file.name for file in place.iterdir()) == ["events.jsonl", "manifest.json"]


def test_a_text_cut_in_the_middle_of_a_character_is_whole_again(tmp_path: Path) -> None:
    place, text = tmp_path / "run", "zwölf Boxkämpfer \n".encode()
    with _open(place) as session:
        stream = _read(session, [text[:3], text[3:12], text[12:]])
        assert b"".join(next(stream) for _ in range(3)) == text
        left = Killed(place, tmp_path / "at" / "run")
        stream.close()
    [data] = left.streams()
    assert data["response"]["body"] == text.decode()
    assert left.replayed() == [text[:3], text[3:12], text[12:]]


def test_a_plain_body_that_was_gzipped_whole_is_told_as_it_came(tmp_path: Path) -> None:
    head = Head(status=200, headers=(("content-encoding", "gzip"),))
    body = gzip.compress(b"data: one\n\n", mtime=0)
    with _open(tmp_path / "run") as session:
        assert list(_read(session, [body], head)) == [body]
    with _open(tmp_path / "run", "replay") as session:
        assert list(_read(session, [], head)) == [body]
