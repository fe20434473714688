from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from reenact.exchange.client.ingest import prepare_item, without_recording
from reenact.exchange.client.slots import claim_slot, orphans
from reenact.exchange.client.spool import DeadLetters, FolderEntry, Spool
from reenact.exchange.client.workers import Notices
from reenact.exchange.model import Exchange
from reenact.format.event import Draft
from reenact.store.pack import unpack
from reenact.store.sinks.base import Options
from reenact.store.sinks.buffered import BufferedSink, Contents
from reenact.store.sinks.memory import memory_seed
from tests.clocks import start_clock
from tests.integration.exchange.client_helpers import a_capture, an_exchange


class Kept:
    """A spool and what it has said."""

    def __init__(self, folder: Path, max_bytes: int = 1 << 20) -> None:
        self.said: list[str] = []
        self.offers = 0
        self.aside = DeadLetters(folder / "refused", most=3)
        self.spool = Spool(
            folder / "slot",
            self.aside,
            Notices(self.said.append),
            max_bytes=max_bytes,
            offered=self._count,
        )
        self.spool.recover()

    def _count(self, urgent: bool) -> None:
        self.offers += 1

    def names(self) -> list[str]:
        return [entry.read().exchange_id for entry in self.spool.first(1_000)]


def test_what_is_offered_is_kept_in_order_and_found_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(5):
        assert kept.spool.offer(an_exchange(f"ex-{number}"), None)
    assert (kept.offers, kept.spool.count) == (5, 5)
    for again in (kept, Kept(tmp_path)):
        assert again.names() == [f"ex-{number}" for number in range(5)]
    again.spool.offer(an_exchange("ex-9"), None)
    assert Kept(tmp_path).names() == ["ex-0", "ex-1", "ex-2", "ex-3", "ex-4", "ex-9"]


def test_a_log_is_emptied_when_the_server_has_all_of_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(3):
        kept.spool.offer(an_exchange(f"ex-{number}"), None)
    kept.spool.remove(*kept.spool.first(2))
    assert Kept(tmp_path).names() == ["ex-0", "ex-1", "ex-2"]  # a kill now sends some again
    kept.spool.remove(*kept.spool.first(1))
    kept.spool.offer(an_exchange("ex-3"), None)
    assert Kept(tmp_path).names() == ["ex-3"]


def test_lines_and_folders_keep_their_order(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.spool.offer(an_exchange("ex-0"), None)
    kept.spool.offer(an_exchange("ex-1"), a_capture(kept.spool.place()))
    kept.spool.offer(an_exchange("ex-2"), None)
    assert Kept(tmp_path).names() == ["ex-0", "ex-1", "ex-2"]


def test_a_small_recording_is_a_line_and_packs_to_the_same_bytes_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    contents = a_recording()
    kept.spool.offer(an_exchange("ex-0"), contents)
    assert not list((tmp_path / "slot" / "making").iterdir())
    (one,) = (prepare_item(entry, "agt") for entry in kept.spool.first(9))
    (two,) = (prepare_item(entry, "agt") for entry in Kept(tmp_path).spool.first(9))
    assert (one.exchange, one.content()) == (two.exchange, two.content())
    (tmp_path / "packed").write_bytes(one.content())
    found = unpack(tmp_path / "packed", tmp_path / "copy")
    assert found.manifest == contents.stated
    assert one.exchange.recording is not None
    assert one.exchange.recording.events == 2
    without_recording(one, "too large")
    again = prepare_item(one.entry, "agt")
    assert (again.packed, again.exchange.not_replayable) == (None, "too large")
    kept.spool.reject(one.entry, "why not")
    (aside,) = tmp_path.glob("refused/*")
    assert (aside / "capture" / "events.jsonl").read_bytes() == contents.events


def test_a_line_that_was_torn_by_a_kill_is_set_aside(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.spool.offer(an_exchange("ex-0"), None)
    kept.spool.offer(an_exchange("ex-1"), None)
    (log,) = (tmp_path / "slot" / "log").iterdir()
    log.write_bytes(log.read_bytes()[:-9])
    assert Kept(tmp_path).names() == ["ex-0"]
    (aside,) = tmp_path.glob("refused/*")
    assert json.loads((aside / "reason.json").read_bytes()) == {"reason": "it is damaged"}
    assert b"ex-1" in (aside / "exchange.json").read_bytes()


def a_recording() -> Contents:
    """A small recording in memory."""
    sink = BufferedSink(Path("nowhere"), clock=start_clock(), options=Options())
    sink.start(memory_seed())
    for number in range(2):
        data = {"name": "t", "callId": "c", "args": number}
        sink.append(Draft(type="tool_call", data=data, ts=1))
    sink.finalize()
    assert sink.contents is not None
    return sink.contents


def test_a_capture_from_elsewhere_is_taken(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    capture = a_capture(tmp_path / "elsewhere")
    kept.spool.offer(an_exchange(), capture)
    assert not capture.exists()
    entry = kept.spool.first(1)[0]
    assert isinstance(entry, FolderEntry)
    assert (entry.path / "capture" / "events.jsonl").exists()


def test_a_capture_that_was_never_made_is_no_matter(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert kept.spool.offer(an_exchange("ex-1"), kept.spool.place())
    assert kept.spool.offer(an_exchange("ex-2"), tmp_path / "nowhere")
    assert kept.names() == ["ex-1", "ex-2"]
    assert prepare_item(kept.spool.first(1)[0], "agt").packed is None


def test_what_does_not_fit_is_dropped_and_leaves_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=3 * len(msgspec.json.encode(an_exchange("ex-1"))) + 300)
    assert kept.spool.offer(an_exchange("ex-1"), None)
    assert not kept.spool.offer(an_exchange("ex-2"), a_capture(kept.spool.place(), 30))
    assert kept.spool.offer(an_exchange("ex-3"), None)
    assert (kept.names(), kept.spool.dropped, len(kept.said)) == (["ex-1", "ex-3"], 1, 1)
    assert not list((tmp_path / "slot" / "making").iterdir())
    for entry in kept.spool.first(2):
        kept.spool.remove(entry)
    for number in range(3):
        assert kept.spool.offer(an_exchange(f"ex-{number}"), None)


def test_an_exchange_that_is_no_json_is_dropped(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert not kept.spool.offer(an_exchange(error=object()), None)
    assert kept.spool.dropped == 1


def test_a_folder_that_vanishes_is_no_reason_to_raise(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    shutil.rmtree(tmp_path / "slot")
    (tmp_path / "slot").write_text("a file", encoding="utf-8")
    place = kept.spool.place()
    assert not kept.spool.offer(an_exchange(), place)
    assert not kept.spool.offer(an_exchange(), None)
    assert (kept.spool.dropped, len(kept.said)) == (2, 1)


def test_what_was_being_made_is_taken_or_set_aside(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    offered, recorded, empty, torn = (kept.spool.place() for _ in range(4))
    a_capture(offered / "capture")
    (offered / "exchange.json").write_bytes(_json(an_exchange("ex-1")))
    a_capture(recorded)
    empty.mkdir()
    torn.mkdir()
    (torn / "exchange.json").write_bytes(b'{"exchangeId": "ex')
    again = Kept(tmp_path)
    assert again.names() == ["ex-1"]
    assert not list((tmp_path / "slot" / "making").iterdir())
    assert not empty.exists()
    reasons = [
        json.loads(path.read_bytes())["reason"] for path in tmp_path.glob("refused/*/reason.json")
    ]
    assert sorted(reasons) == ["it is damaged", "the process ended before it was offered"]


def test_a_line_is_sent_refused_and_taken_over_as_a_folder_is(tmp_path: Path) -> None:
    kept, other = Kept(tmp_path / "one"), Kept(tmp_path / "other")
    for number in range(3):
        other.spool.offer(an_exchange(f"ex-{number}", agent_id=""), None)
    assert kept.spool.adopt(tmp_path / "other" / "slot") == 3
    first, second, third = kept.spool.first(3)
    assert prepare_item(first, "agt-7").exchange.agent_id == "agt-7"
    kept.spool.measure(first)
    kept.spool.remove(first)
    kept.spool.reject(second, "why not")
    assert (kept.names(), kept.aside.count) == (["ex-2"], 1)
    kept.spool.remove(third)
    kept.spool.close()
    assert not list((tmp_path / "one" / "slot" / "log").iterdir())
    assert not list((tmp_path / "other" / "slot" / "log").iterdir())


def _json(exchange: Exchange) -> bytes:
    return msgspec.json.encode(exchange)


def test_what_was_set_aside_is_bounded(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(6):
        kept.spool.offer(an_exchange(f"ex-{number}"), None)
    for entry in kept.spool.first(6):
        kept.spool.reject(entry, "why not")
    assert (kept.aside.count, kept.spool.count) == (3, 0)


# Packing


def test_what_was_packed_stays_the_same(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.spool.offer(an_exchange(), a_capture(kept.spool.place()))
    (entry,) = kept.spool.first(1)
    one = prepare_item(entry, "agt")
    assert isinstance(one.packed, Path)
    content = one.packed.read_bytes()
    two = prepare_item(entry, "other")
    assert (two, one.packed.read_bytes()) == (one, content)
    assert one.exchange.agent_id == "agt"
    unpack(one.packed, tmp_path / "copy")
    kept.spool.measure(entry)
    assert without_recording(one, "too large").exchange.recording is None
    assert prepare_item(entry, "agt").exchange.not_replayable == "too large"


@pytest.mark.parametrize("left", ["packed", "packed.tmp", "exchange.json.tmp"])
def test_packing_that_was_killed_begins_anew(tmp_path: Path, left: str) -> None:
    kept = Kept(tmp_path)
    kept.spool.offer(an_exchange(), a_capture(kept.spool.place()))
    (entry,) = kept.spool.first(1)
    assert isinstance(entry, FolderEntry)
    (entry.path / left).write_bytes(b"half of it")
    parcel = prepare_item(entry, "agt")
    assert isinstance(parcel.packed, Path)
    unpack(parcel.packed, tmp_path / "copy")


# Slots


def test_a_slot_belongs_to_one_and_keeps_its_name(tmp_path: Path) -> None:
    one, two = claim_slot(tmp_path), claim_slot(tmp_path)
    assert one.folder != two.folder
    assert one.agent_id != two.agent_id
    assert list(orphans(tmp_path)) == []
    one.release()
    assert list(orphans(tmp_path)) == [one.folder]
    again = claim_slot(tmp_path)
    assert (again.folder, again.agent_id) == (one.folder, one.agent_id)
    again.release()
    again.release()
    two.release()


def test_a_name_that_is_none_is_replaced(tmp_path: Path) -> None:
    slot = claim_slot(tmp_path)
    slot.release()
    for content in (b"", b"no name\xff", b"two words"):
        (slot.folder / "agent").write_bytes(content)
        again = claim_slot(tmp_path)
        assert again.agent_id.startswith("agt_")
        again.release()
