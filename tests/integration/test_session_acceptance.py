"""The acceptance scenarios of the source document, as far as calls made by hand go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, RecordingOutdated, RecordingTooNew, Session
from tests.integration.sessions import Studio

CALL_ID = "call_Zx9-opaque/+="
SIGNATURE = "EqQBCgIYAhIkZmFrZS1zaWduYXR1cmU="


class Model:
    """A model and a tool. ``live`` is how often they were really asked."""

    def __init__(self) -> None:
        self.live = 0

    def ask(self, messages: list[Any]) -> dict[str, Any]:
        self.live += 1
        if len(messages) == 1:
            call = {"id": CALL_ID, "name": "weather", "args": {"city": "Bern"}}
            return {"reasoning": {"id": "rs_1", "signature": SIGNATURE}, "call": call}
        return {"text": f"It is {messages[-1]['result']['degrees']} degrees"}

    def weather(self, city: str) -> dict[str, Any]:
        self.live += 1
        return {"city": city, "degrees": 20}


def _agent(model: Model, question: str = "How warm is it in Bern?") -> Callable[[Session], Any]:
    """A whole run: its start, a model call, a tool call, a model call, its end."""

    def run(session: Session) -> Any:
        session.record_event("run_start", {"input": question})
        now = session.call("now", {}, lambda: 1_700_000_000, capability="time.now", source="clock")
        messages: list[Any] = [{"role": "user", "content": question, "at": now}]
        first = _ask(session, model, messages)
        call = first["call"]
        result = session.call(call["name"], call["args"], lambda: model.weather(**call["args"]))
        messages += [first, {"id": call["id"], "result": result}]
        answer = _ask(session, model, messages)["text"]
        session.record_event("run_end", {"status": "ok", "output": answer})
        return {"output": answer, "messages": messages}

    return run


def _ask(session: Session, model: Model, messages: list[Any]) -> Any:
    encoded = json.dumps(messages, sort_keys=True).encode()
    request = {"inputHash": hashlib.sha256(encoded).hexdigest(), "messages": messages}
    return session.call("ask", request, lambda: model.ask(messages), capability="llm.call")


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


@pytest.fixture
def model() -> Model:
    return Model()


def _in(studio: Studio, mode: str, body: Callable[[Session], Any], **arguments: Any) -> Any:
    place = {"capture": studio.root / "baseline", "mode": mode, **arguments}
    with studio.session(**place) as session:
        return body(session)


def test_capture_baseline(studio: Studio, model: Model) -> None:
    result = _in(studio, "capture", _agent(model))
    assert result["output"] == "It is 20 degrees"
    folder = studio.root / "baseline"
    manifest = reenact.verify(folder).manifest
    assert (manifest.mode, manifest.status) == ("capture", "ok")
    assert sorted(path.name for path in folder.iterdir()) == ["events.jsonl", "manifest.json"]
    kinds = [event.type for event in studio.events(folder)]
    assert kinds[0] == "run_start"
    assert kinds[-1] == "run_end"
    assert kinds.count("tool_call") == kinds.count("tool_result") == 1
    with reenact.open_recording(folder) as source:
        assert [event.seq for event in source] == list(range(1, manifest.event_count + 1))


def test_replay_offline(studio: Studio, model: Model) -> None:
    baseline = _in(studio, "capture", _agent(model))
    live = model.live
    for _ in range(3):
        assert _in(studio, "replay", _agent(model), strict=True) == baseline
    assert model.live == live


def test_strict_divergence(studio: Studio, model: Model) -> None:
    _in(studio, "capture", _agent(model))
    live = model.live
    with pytest.raises(DivergenceError) as caught:
        _in(studio, "replay", _agent(model, "How cold is it in Bern?"), strict=True)
    found = caught.value.to_json()
    assert found["code"] == "event_payload_mismatch"
    assert found["jsonPath"] == "$['input']"
    assert found["eventSeq"] == 1
    assert found["expected"]["data"] == {"input": "How warm is it in Bern?"}
    assert found["observed"]["data"] == {"input": "How cold is it in Bern?"}
    assert model.live == live


def test_lenient_divergence(studio: Studio, model: Model) -> None:
    baseline = _in(studio, "capture", _agent(model))
    live = model.live
    place: dict[str, Any] = {"capture": studio.root / "baseline", "strict": False}
    with studio.session(**place) as session:
        result = _agent(model, "How cold is it in Bern?")(session)
    assert result["output"] == baseline["output"]
    assert model.live == live
    report = session.report().to_json()
    assert report["status"] == "diverged"
    assert {one["code"] for one in report["divergences"]} == {"event_payload_mismatch"}
    assert report["counts"]["divergences"] == 3  # the start, and two model calls
    assert report["counts"]["unused"] == 0


def test_no_behaviour_change_when_off(studio: Studio, model: Model) -> None:
    result = _in(studio, "off", _agent(model))
    assert result["output"] == "It is 20 degrees"
    assert model.live == 3
    assert studio.everything() == {}
    assert studio.warnings == []
    with studio.session(mode="off") as session:
        shared = object()
        assert session.call("any", {}, lambda: shared) is shared


def test_reasoning_and_function_call_identity_preserved(studio: Studio, model: Model) -> None:
    _in(studio, "capture", _agent(model))
    messages = _in(studio, "replay", _agent(model), strict=True)["messages"]
    assert messages[1]["reasoning"] == {"id": "rs_1", "signature": SIGNATURE}
    assert messages[1]["call"]["id"] == messages[2]["id"] == CALL_ID


def _rewrite_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), "utf-8")


def test_newer_major_refused_with_a_hint(studio: Studio, model: Model) -> None:
    _in(studio, "capture", _agent(model))
    newer = {"name": "reenact", "version": "2.0"}
    _rewrite_manifest(studio.root / "baseline", lambda raw: raw.update(format=newer))
    with pytest.raises(RecordingTooNew) as caught:
        _in(studio, "replay", _agent(model))
    assert "upgrade" in caught.value.hint


def test_older_manifest_is_told_how_to_migrate(studio: Studio, model: Model) -> None:
    _in(studio, "capture", _agent(model))
    _rewrite_manifest(studio.root / "baseline", lambda raw: raw.pop("format"))
    with pytest.raises(RecordingOutdated) as caught:
        _in(studio, "replay", _agent(model))
    assert "reenact migrate" in caught.value.hint


def test_stable_artifacts(studio: Studio, model: Model) -> None:
    """Two recordings of one fixture, and every replay of one recording, have one content hash."""
    _in(studio, "capture", _agent(model))
    _in(studio, "capture", _agent(model), capture=studio.root / "second")
    for number in range(2):
        into = studio.root / f"replay-{number}"
        _in(studio, "replay", _agent(model), strict=True, into=into)
    folders = [path for path in studio.root.iterdir() if path.is_dir()]
    hashes = {studio.manifest(folder).integrity.content_hash for folder in folders}
    assert len(folders) == 4
    assert len(hashes) == 1
