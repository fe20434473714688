"""What happens to a recorded conversation when the program, or the policy, is another one."""

from __future__ import annotations

import asyncio
import json
import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_sync

from reenact import BudgetExceeded, DivergenceError, Policy, PolicyRefused
from reenact.policy.model import BoundaryRule, Budgets, Ignore, NetRules
from tests.integration.chatting import Chat
from tests.integration.sessions import Studio

_CHANCE = random.Random("secrets of websockets")
SECRET = "gh" + "p_" + "".join(_CHANCE.choices(string.ascii_letters + string.digits, k=36))


def _talk(chat: Chat, *messages: str, path: str = "json", **arguments: Any) -> Any:
    """Sends each message and gives the answers."""

    async def program() -> list[Any]:
        async with connect(chat.url(path), **arguments) as websocket:
            answers = []
            for message in messages:
                await websocket.send(message)
                answers.append(await websocket.recv())
            return answers

    return asyncio.run(program())


def _diverges(studio: Studio, program: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(DivergenceError) as caught:
        studio.replay(program)
    return caught.value.to_json()


def _asked(text: str, **more: Any) -> str:
    return json.dumps({"ask": {"text": text}, **more})


# The program


def test_a_changed_message_is_a_mismatch_with_path_and_values(studio: Studio, chat: Chat) -> None:
    studio.record(lambda: _talk(chat, _asked("one"), _asked("two")))
    chat.stop()
    found = _diverges(studio, lambda: _talk(chat, _asked("one"), _asked("three")))
    assert found["code"] == "event_payload_mismatch"
    (gap,) = found["paths"]
    assert gap["path"].endswith("body.ask.text")
    assert (gap["expected"], gap["observed"]) == ("two", "three")


def test_a_message_that_says_the_same_is_the_same(studio: Studio, chat: Chat) -> None:
    recorded = studio.record(lambda: _talk(chat, '{"a": 1, "b": [2]}'))
    chat.stop()
    assert studio.replay(lambda: _talk(chat, '{"b":[2],"a":1}')) == recorded


def test_text_and_bytes_are_not_the_same(studio: Studio, chat: Chat) -> None:
    studio.record(lambda: _talk(chat, "{}", path="echo"))
    chat.stop()

    async def program() -> None:
        async with connect(chat.url("echo")) as websocket:
            await websocket.send(b"{}")

    found = _diverges(studio, lambda: asyncio.run(program()))
    assert found["code"] == "event_payload_mismatch"
    assert found["paths"][0]["path"].endswith("type")


def test_one_message_more_is_unexpected(studio: Studio, chat: Chat) -> None:
    async def program(extra: bool) -> None:
        async with connect(chat.url("echo")) as websocket:
            await websocket.send("one")
        if extra:
            with pytest.raises(ConnectionClosed):
                await websocket.send("two")

    studio.record(lambda: asyncio.run(program(False)))
    chat.stop()
    assert _diverges(studio, lambda: asyncio.run(program(True)))["code"] == "event_unexpected"


def test_one_message_fewer_is_missing(studio: Studio, chat: Chat) -> None:
    async def program(last: bool) -> None:
        websocket = await connect(chat.url("echo"))
        await websocket.send("one")
        if last:
            await websocket.close()

    studio.record(lambda: asyncio.run(program(True)))
    chat.stop()
    assert _diverges(studio, lambda: asyncio.run(program(False)))["code"] == "event_missing"


def test_another_address_is_a_mismatch(studio: Studio, chat: Chat) -> None:
    studio.record(lambda: _talk(chat, "{}", path="echo"))
    chat.stop()
    found = _diverges(studio, lambda: _talk(chat, "{}", path="json"))
    assert found["paths"][0]["path"].endswith("url")


def test_other_credentials_and_another_user_agent_are_no_change(studio: Studio, chat: Chat) -> None:
    old: dict[str, Any] = {"additional_headers": {"Authorization": f"Bearer {SECRET}"}}
    new: dict[str, Any] = {
        "additional_headers": {"Authorization": "Bearer other"},
        "user_agent_header": "mine/1",
    }
    recorded = studio.record(lambda: _talk(chat, "{}", **old))
    chat.stop()
    assert studio.replay(lambda: _talk(chat, "{}", **new)) == recorded


def test_another_client_can_re_enact_the_conversation(studio: Studio, chat: Chat) -> None:
    def program() -> list[Any]:
        with connect_sync(chat.url("json")) as websocket:
            websocket.send("{}")
            return [websocket.recv()]

    recorded = studio.record(lambda: _talk(chat, "{}"))
    chat.stop()
    assert studio.replay(program) == recorded


def test_a_lenient_replay_reports_a_changed_message_and_goes_on(studio: Studio, chat: Chat) -> None:
    recorded = studio.record(lambda: _talk(chat, _asked("one"), _asked("two")))
    chat.stop()
    with studio.session(mode="replay", strict=False) as session:
        assert _talk(chat, _asked("uno"), _asked("two")) == recorded
    (found,) = session.divergences()
    assert found.code == "event_payload_mismatch"


# The policy


def test_ignored_paths_reach_into_messages(studio: Studio, chat: Chat) -> None:
    policy = Policy(id="p", ignore=Ignore(paths=("$.request.body.at",)))
    recorded = studio.record(lambda: _talk(chat, _asked("one", at=1)), policy=policy)
    chat.stop()
    assert studio.replay(lambda: _talk(chat, _asked("one", at=2)), policy=policy) == recorded


def test_a_host_that_is_not_allowed_is_not_connected_to(studio: Studio, chat: Chat) -> None:
    policy = Policy(id="p", net=NetRules(domains=("example.org",)))
    with pytest.raises(PolicyRefused, match="127"):
        studio.record(lambda: _talk(chat, "{}"), policy=policy)
    assert chat.opened == 0


def test_a_connection_may_pass_by(studio: Studio, chat: Chat) -> None:
    rule = BoundaryRule(capability="net.stream", action="pass")
    policy = Policy(id="p", boundaries=(rule,), allow_passthrough=True)
    studio.record(lambda: _talk(chat, "{}"), policy=policy)
    assert studio.events() == []
    assert studio.replay(lambda: _talk(chat, "{}"), policy=policy)
    assert chat.opened == 2


def test_a_message_over_budget_is_refused_and_the_line_closed(studio: Studio, chat: Chat) -> None:
    policy = Policy(id="p", budgets=Budgets(response_bytes=2_000))

    def program() -> None:
        with pytest.raises(BudgetExceeded):
            _talk(chat, "x" * 4_000, path="echo")

    studio.record(program, policy=policy)
    chat.stop()
    studio.replay(program, policy=policy)
    assert len(chat.heard) == 1


# Secrets


def _secretive(chat: Chat) -> list[Any]:
    """Sends and gets secrets: in headers, the address, JSON, plain text and a reason."""

    async def program() -> list[Any]:
        seen: list[Any] = []
        address = chat.url(f"secret?value={SECRET}", credentials=f"ann:{SECRET}@")
        headers = {"X-Api-Key": SECRET, "Cookie": f"sid={SECRET}"}
        async with connect(address, additional_headers=headers) as websocket:
            seen.append(await websocket.recv())
            await websocket.send(json.dumps({"auth": {"token": SECRET}}))
            seen.append(await websocket.recv())
            await websocket.send(SECRET.encode())
            seen.append(await websocket.recv())
            await websocket.close(4000, SECRET)
        with pytest.raises(ConnectionClosed) as caught:
            await websocket.send(SECRET)
        return [*seen, str(caught.value)]

    return asyncio.run(program())


def test_secrets_do_not_reach_the_disk(studio: Studio, chat: Chat) -> None:
    place: dict[str, Any] = {"capture": studio.root / "recording"}
    recorded = studio.record(lambda: _secretive(chat), **place)
    assert SECRET in recorded[0]
    chat.stop()
    assert studio.replay(lambda: _secretive(chat), **place) == recorded
    files = b"\n".join(content or b"" for content in studio.everything().values())
    assert SECRET.encode() not in files
    assert SECRET not in "\n".join(studio.warnings)


def test_secrets_are_not_in_what_a_divergence_says(studio: Studio, chat: Chat) -> None:
    studio.record(lambda: _talk(chat, _asked("one")))
    chat.stop()
    with pytest.raises(DivergenceError) as caught:
        studio.replay(lambda: _talk(chat, _asked(SECRET)))
    assert SECRET not in str(caught.value) + json.dumps(caught.value.to_json())


def test_an_update_keeps_a_conversation_whole_or_not_at_all(studio: Studio, chat: Chat) -> None:
    recorded = studio.record(lambda: _talk(chat, _asked("one"), _asked("two")))
    before = studio.everything()
    with studio.session(mode="update"):
        assert _talk(chat, _asked("one"), _asked("two")) == recorded
    with studio.session(mode="update"), pytest.raises(PolicyRefused, match="cannot continue live"):
        _talk(chat, _asked("one"), _asked("three"))
    assert studio.everything() == before
    assert any("cannot be updated in part" in one for one in studio.warnings)
