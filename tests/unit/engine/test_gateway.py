"""What boundaries get from the gateway, in threads and in tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import reenact
from reenact import CapabilityDenied, DivergenceError, Policy, Session
from reenact.engine.call import Call
from reenact.engine.codecs import PlainCodec
from reenact.format.event import Data
from reenact.policy.model import BoundaryRule
from tests.unit.engine.stage import Stage


class Page:
    """Something that a boundary gives to a program."""

    def __init__(self, text: str) -> None:
        self.text = text


class Pages(PlainCodec):
    """A codec: pages are recorded as their text, and failures as a word."""

    def dump(self, call: Call, result: Any) -> Data:
        return {"response": {"text": result.text}}

    def load(self, call: Call, data: Data) -> Any:
        return Page(data["response"]["text"])

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        return result

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return {"class": "word", "message": str(error)}

    def load_error(self, call: Call, data: Any) -> BaseException:
        return LookupError(data["message"])


CODEC = Pages()


def _call(**more: Any) -> Call:
    fields = {"capability": "net.fetch", "operation": "get", "request": {"x": 1}}
    return Call(**{"type": "nondeterministic", "source": "network", **fields, **more})


def test_a_codec_says_how_results_are_kept() -> None:
    stage = Stage()
    live = Page("hello")
    with stage.recording() as session:
        assert session.gateway.call(_call(), lambda: live, CODEC) is live
    with stage.replaying() as session:
        back = session.gateway.call(_call(), lambda: pytest.fail("not made"), CODEC)
    assert back.text == "hello"
    assert stage.data()[0]["response"] == {"text": "hello"}


def test_a_codec_says_how_failures_are_kept() -> None:
    stage = Stage()

    def fail() -> Any:
        raise LookupError("nowhere")

    async def afail() -> Any:
        raise LookupError("nowhere")

    def body(session: Session) -> Any:
        with pytest.raises(LookupError, match="nowhere"):
            session.gateway.call(_call(), fail, CODEC)
        with pytest.raises(LookupError, match="nowhere"):
            asyncio.run(session.gateway.acall(_call(), afail, CODEC))

    stage.both(body)
    assert [data["error"] for data in stage.data()] == [{"class": "word", "message": "nowhere"}] * 2


def test_a_codec_that_fails_leaves_a_recording_that_is_whole() -> None:
    stage = Stage()

    class Broken(Pages):
        def dump(self, call: Call, result: Any) -> Data:
            raise RuntimeError("cannot be kept")

    async def alive() -> Page:
        return Page("x")

    def body(session: Session) -> Any:
        with pytest.raises(RuntimeError, match="cannot be kept"):
            session.gateway.call(_call(), lambda: Page("x"), Broken())
        with pytest.raises(RuntimeError, match="cannot be kept"):
            asyncio.run(session.gateway.acall(_call(), alive, Broken()))
        return session.call("then", {}, lambda: 1)

    assert stage.record(body) == 1
    assert [data["error"]["class"] for data in stage.data()[:2]] == ["builtins.RuntimeError"] * 2


def test_live_calls_run_outside_of_the_session() -> None:
    stage = Stage()
    seen: list[Any] = []

    async def look() -> None:
        await asyncio.sleep(0)
        seen.append(reenact.current())

    def pieces() -> Iterator[int]:
        seen.append(reenact.current())
        yield 1

    with stage.recording() as session:
        session.gateway.call(_call(), lambda: seen.append(reenact.current()))
        asyncio.run(session.gateway.acall(_call(), look))
        list(session.stream("s", {}, pieces))
        assert reenact.current() is session
        session.call("tool", {}, lambda: seen.append(reenact.current()))
    assert seen == [None, None, None, session]


def test_outside_of_the_session_is_undone_when_the_live_call_fails() -> None:
    stage = Stage()
    with stage.recording() as session:
        with pytest.raises(ZeroDivisionError):
            session.gateway.call(_call(), lambda: 1 // 0)
        assert reenact.current() is session


def test_a_refusal_does_not_tell_secrets() -> None:
    secret = "gh" + "p_" + "a1B2c3D4e5" * 4
    policy = Policy(id="p", boundaries=(BoundaryRule(action="block"),))
    with Stage(policy).recording() as session, pytest.raises(CapabilityDenied) as caught:
        session.gateway.call(_call(operation=secret), lambda: 1)
    assert secret not in str(caught.value)
    assert "blocks net.fetch" in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_a_program_inside_a_call_is_recorded(error: BaseException) -> None:
    stage = Stage()

    def fail() -> Any:
        raise error

    def body(session: Session) -> Any:
        with pytest.raises(type(error)):
            session.gateway.call(_call(), fail)

    stage.both(body)


def test_a_cancelled_call_is_never_answered() -> None:
    stage = Stage()

    async def forever() -> None:
        await asyncio.Event().wait()

    async def body(session: Session, *, cancels: bool = True) -> Any:
        task = asyncio.create_task(session.gateway.acall(_call(), forever))
        await asyncio.sleep(0)
        if cancels:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    assert stage.both(lambda session: asyncio.run(body(session))) == "cancelled"
    assert stage.data()[0]["cancelled"] is True
    with pytest.raises(DivergenceError) as caught, stage.replaying() as session:
        asyncio.run(body(session, cancels=False))
    assert "stalled" in caught.value.to_json()["flags"]


def test_a_call_that_raises_cancelled_by_itself_has_failed() -> None:
    stage = Stage()

    async def fail() -> None:
        raise asyncio.CancelledError("from inside")

    async def body(session: Session) -> Any:
        with pytest.raises(asyncio.CancelledError, match="from inside"):
            await session.gateway.acall(_call(), fail)
        return await session.gateway.acall(_call(), _one)

    assert stage.both(lambda session: asyncio.run(body(session))) == 1
    assert stage.data()[0]["error"]["class"] == "asyncio.exceptions.CancelledError"


async def _one() -> int:
    return 1


def test_what_was_answered_and_is_cancelled_now_is_a_divergence() -> None:
    stage = Stage()

    async def body(session: Session, *, cancels: bool) -> Any:
        task = asyncio.create_task(session.gateway.acall(_call(), _one))
        other = asyncio.create_task(session.gateway.acall(_call(request={"x": 2}), _one))
        if cancels:
            await asyncio.sleep(0)
            task.cancel()
        return await asyncio.gather(task, other, return_exceptions=True)

    stage.record(lambda session: asyncio.run(body(session, cancels=False)))
    with pytest.raises(DivergenceError) as caught:
        stage.replay(lambda session: asyncio.run(body(session, cancels=True)))
    assert caught.value.to_json()["code"] == "event_missing"
