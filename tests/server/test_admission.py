"""How much is taken in at a time: room by tenant, turns one tenant after the other."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from reenact.server.http.admission import Room, Turns
from reenact.server.problems import Problem

SIZE = 1 << 20


def refused(room: Room, tenant: str, size: int) -> str:
    with pytest.raises(Problem) as problem, room.taken(tenant, size):
        pass
    assert problem.value.retry_after
    return problem.value.code


def test_a_tenant_gets_half_and_the_others_the_rest() -> None:
    room = Room(SIZE)
    with ExitStack() as stack:
        stack.enter_context(room.taken("a", SIZE // 2))
        assert refused(room, "a", 1) == "rate_limited"
        stack.enter_context(room.taken("b", SIZE // 2))
        assert refused(room, "c", 1) == "unavailable"
        assert room.held == SIZE
    assert room.held == 0


def test_what_is_larger_than_a_share_gets_in_alone() -> None:
    room = Room(SIZE)
    with room.taken("a", SIZE):
        assert refused(room, "a", 1) == "rate_limited"
        assert refused(room, "b", 1) == "unavailable"
    with room.taken("b", 1):
        assert refused(room, "a", SIZE) == "unavailable"
    with room.taken("a", 10 * SIZE):  # larger than all there is: when there is nothing else
        assert room.held == 10 * SIZE


def test_small_ones_are_counted_too() -> None:
    room = Room(SIZE)
    with ExitStack() as stack:
        for _ in range(SIZE // 2 >> 16):
            stack.enter_context(room.taken("a", 1))
        assert refused(room, "a", 1) == "rate_limited"


def test_room_is_given_back_when_something_fails() -> None:
    room = Room(SIZE)
    with pytest.raises(LookupError), room.taken("a", SIZE):
        raise LookupError
    assert room.held == 0


def test_tenants_come_in_turn() -> None:
    async def main() -> list[str]:
        turns, done, go = Turns(1), list[str](), asyncio.Event()

        async def work(tenant: str, name: str) -> None:
            async with turns.turn(tenant):
                await go.wait()
                done.append(name)

        busy = [asyncio.create_task(work("a", f"a{number}")) for number in range(5)]
        await asyncio.sleep(0)
        late = [asyncio.create_task(work(one, one)) for one in ("b", "c")]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*busy, *late)
        return done

    assert asyncio.run(main()) == ["a0", "a1", "b", "c", "a2", "a3", "a4"]


def test_no_more_at_a_time_than_was_said() -> None:
    async def main() -> int:
        turns, now, most = Turns(3), 0, 0

        async def work(tenant: str) -> None:
            nonlocal now, most
            async with turns.turn(tenant):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(work(f"t{number % 4}") for number in range(50)))
        assert now == 0
        return most

    assert asyncio.run(main()) == 3


@pytest.mark.parametrize("had", [False, True], ids=["while it waits", "when it is its turn"])
def test_who_leaves_does_not_keep_a_turn(had: bool) -> None:
    async def main() -> None:
        turns = Turns(1)
        first = turns.turn("a")
        await first.__aenter__()

        async def work() -> None:
            async with turns.turn("b"):
                raise AssertionError("it has left")

        leaving = asyncio.create_task(work())
        await asyncio.sleep(0)
        if had:
            await first.__aexit__(None, None, None)  # now it may, and does not know it yet
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        if not had:
            await first.__aexit__(None, None, None)
        async with asyncio.timeout(10), turns.turn("c"):
            pass

    asyncio.run(main())
