"""An exception that a signal handler throws can arrive between any two steps of an append."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.format.event import Draft
from reenact.policy.redaction.redactor import Redactor
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.verify import verify
from tests.unit.store.samples import PLAIN, contents, datas, draft, start_sink

SECRET = "hunter" + "2" * 20
LONG = "a sentence that is long enough to be worth repeating; " * 20


class Interruption:
    """A trace function that raises KeyboardInterrupt at the ``at``-th line of ``reenact.store``.

    Lines with ``with`` and ``try`` are left out: they hold instructions at which the interpreter
    never lets a signal in, but tracing would, and leave a ``with`` without its exit.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if "/reenact/store/" not in name:
            return None
        here = linecache.getline(name, frame.f_lineno).strip()
        if event == "line" and not here.startswith(("with ", "try:")):
            self.seen += 1
            if self.seen == self.left:
                raise KeyboardInterrupt
        return self


def under(trace: Callable[..., Any], action: Callable[[], object]) -> bool:
    """Run ``action``; True when it was interrupted."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _append(sink: Any, event: Draft) -> None:
    """Look up the method within the traced action, because the lookup has steps of its own."""
    sink.append(event)


def options(kind: str) -> Options:
    if kind == "blob":
        return replace(PLAIN, blob_threshold=700)
    if kind == "sealed":
        return Options(
            redactor=Redactor("default", declared=[SECRET], engine="python"),
            seal=Seal(bytes(32)),
            durability="none",
        )
    return PLAIN


def event(kind: str, number: int) -> Draft:
    if kind == "sealed":
        data = {"callId": "c", "ok": True, "result": f"{SECRET} {number}"}
        return draft("tool_result", data)
    if kind == "blob":
        return draft(data={"text": f"{number} {LONG}"}, op=f"op {number}")
    return draft(data={"text": LONG, "number": number}, op="chat")


def steps(tmp_path: Path, name: str, kind: str) -> Iterator[int]:
    """Every step at which an append can be interrupted, counted on a trial run."""
    sink = start_sink(tmp_path / f"trial-{name}", options(kind))
    sink.append(event(kind, 1))
    counter = Interruption(at=-1)
    assert not under(counter, lambda: sink.append(event(kind, 2)))
    sink.finalize()
    assert counter.seen > 20
    yield from range(1, counter.seen + 1)


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("kind", ["delta", "blob", "sealed"])
def test_an_append_interrupted_at_any_step_leaves_a_recording_that_verifies(
    tmp_path: Path, name: str, kind: str
) -> None:
    for step in steps(tmp_path, name, kind):
        path = tmp_path / f"{step}-{name}"
        sink = start_sink(path, options(kind))
        sink.append(event(kind, 1))
        assert under(Interruption(step), partial(_append, sink, event(kind, 2)))
        third = sink.append(event(kind, 3))
        sink.append(event(kind, 3))
        sink.finalize()
        verify(path)
        kept = datas(path)
        assert third in (2, 3), f"step {step}"
        assert len(kept) == third + 1, f"step {step}"
        assert kept[-1] == kept[-2]
        assert str(1) in str(kept[0])


@pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
def test_an_interrupted_append_may_be_the_last_thing_that_happens(
    tmp_path: Path, name: str
) -> None:
    for step in steps(tmp_path, name, "blob"):
        path = tmp_path / f"{step}-{name}"
        sink = start_sink(path, options("blob"))
        sink.append(event("blob", 1))
        assert under(Interruption(step), partial(_append, sink, event("blob", 2)))
        sink.finalize("error", "KeyboardInterrupt")
        verify(path)
        told = [event("blob", 1).data, event("blob", 2).data]
        assert datas(path) in (told[:1], told)


class Cut(str):
    """A type name that cannot be counted: the interruption comes after the line was written."""

    def encode(self, *_: Any) -> bytes:
        raise KeyboardInterrupt


def test_an_event_that_was_written_but_not_counted_is_there_once(tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "c")
    sink.append(draft("first"))
    with pytest.raises(KeyboardInterrupt):
        sink.append(draft(Cut("second"), {"n": 2}))
    assert sink.append(draft("third")) == 3
    sink.finalize()
    verify(tmp_path / "c")
    assert [(seq, kind) for seq, kind, *_ in contents(tmp_path / "c")] == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]
