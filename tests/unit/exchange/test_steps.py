"""Steps, loops, splits, choices and handlers: what an exchange notes of them."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from reenact.errors import UsageError
from reenact.exchange import Message, aloop, choice, correlation, is_replay, loop, split, step
from tests.unit.exchange.lineage_helpers import flowing


@step("double")
def double(n):
    return n * 2


@step
def named_by_itself(n, *, password="x"):
    return n


@step("outer")
def outer(n):
    return double(n) + double(n + 1)


@step("wait")
async def wait(n):
    await asyncio.sleep(0)
    return n


def test_outside_an_exchange_a_step_is_its_function():
    assert double(2) == 4
    assert asyncio.run(wait(3)) == 3
    assert list(loop("l", [1, 2])) == [1, 2]
    assert split("s", [1, 2], double) == [2, 4]
    assert not is_replay()
    assert correlation() == {}
    with choice("c") as way:
        assert way.when("a", 1)
    assert way.branch == "a"


def test_nested_steps_know_their_parents():
    with flowing() as seen:
        outer(1)
    assert seen.tree() == ["1<0 step outer", "2<1 step double", "3<1 step double"]


def test_arguments_are_noted_by_name_and_the_result_too():
    with flowing() as seen:
        named_by_itself(5, password="p")
    [one] = seen.processors
    assert one.processor_id == "named_by_itself"
    assert one.input == {"n": 5, "password": "p"}
    assert one.output == 5
    assert one.changes == ()


def test_what_a_step_does_to_the_message_is_its_changes():
    @step("discount")
    def discount(message):
        message.body["amount"] -= 1
        message.headers["X-Rule"] = "ten"
        del message.properties["gone"]

    message = Message({"amount": 5}, {"x-rule": "none"}, {"gone": 1})
    with flowing() as seen:
        discount(message)
    [one] = seen.processors
    assert [msgspec.to_builtins(change) for change in one.changes] == [
        {"op": "replace", "path": "/body/amount", "before": 5, "after": 4},
        {"op": "replace", "path": "/headers/x-rule", "before": "none", "after": "ten"},
        {"op": "remove", "path": "/properties/gone", "before": 1},
    ]
    assert one.input is msgspec.UNSET


def test_rounds_of_a_loop_do_not_collapse():
    with flowing() as seen:
        for n in loop("lines", [10, 20]):
            double(n)
        double(99)
    assert seen.tree() == [
        "1<0 loop lines",
        "2<1 step double#0",
        "3<1 step double#1",
        "4<0 step double",
    ]


def test_what_is_deeper_in_a_round_is_in_it_too():
    with flowing() as seen:
        for n in loop("lines", [1]):
            outer(n)
    assert seen.tree()[2:] == ["3<2 step double#0", "4<2 step double#0"]


@pytest.mark.parametrize("leave", ["break", "raise"])
def test_a_loop_that_is_left_leaves_its_place(leave):
    with flowing() as seen:
        try:
            for n in loop("lines", [1, 2, 3]):
                if leave == "break":
                    break
                raise KeyError(n)
        except KeyError:
            pass
        double(1)
    assert seen.tree() == ["1<0 loop lines", "2<0 step double"]


def test_a_loop_over_what_fails_has_failed():
    def failing():
        yield 1
        raise ValueError("no more")

    with flowing() as seen, pytest.raises(ValueError):
        list(loop("lines", failing()))
    assert seen.tree() == ["1<0 loop lines failed"]


def test_an_asynchronous_loop():
    async def some():
        for n in range(2):
            yield n

    async def main():
        async for n in aloop("a", some()):
            await wait(n)
        async for n in aloop("b", [7]):
            await wait(n)

    with flowing() as seen:
        asyncio.run(main())
    assert seen.tree() == [
        "1<0 loop a",
        "2<1 step wait#0",
        "3<1 step wait#1",
        "4<0 loop b",
        "5<4 step wait#0",
    ]


@pytest.mark.parametrize("at_once", [1, 3])
def test_parts_of_a_split_in_order_of_their_items(at_once):
    with flowing() as seen:
        assert split("parts", [1, 2, 3], double, at_once=at_once) == [2, 4, 6]
    assert seen.tree()[0] == "1<0 split parts"
    assert sorted(line.split(" ", 1)[1] for line in seen.tree()[1:]) == [
        "step double#0",
        "step double#1",
        "step double#2",
    ]
    assert {one.parent_seq for one in seen.processors[1:]} == {1}


@pytest.mark.parametrize("at_once", [1, 3])
def test_parts_of_a_split_as_tasks(at_once):
    async def main():
        return await split("parts", [1, 2, 3], wait, at_once=at_once)

    with flowing() as seen:
        assert asyncio.run(main()) == [1, 2, 3]
    assert {one.iteration for one in seen.processors[1:]} == {0, 1, 2}


def test_parts_really_run_at_once():
    meeting = threading.Barrier(2, timeout=30)

    def meet(n):
        meeting.wait()
        return n

    with flowing() as seen:
        assert split("parts", [1, 2], meet, at_once=2) == [1, 2]
    assert len(seen.processors) == 3


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_split_of_which_a_part_fails(at_once):
    def check(n):
        if n == 2:
            raise ValueError("two")
        return n

    with flowing() as seen, pytest.raises(ValueError, match="two"):
        split("parts", [1, 2], check, at_once=at_once)
    assert seen.processors[0].status == "failed"
    assert seen.processors[0].error is not None


@pytest.mark.parametrize("amount, branch", [(100, "large"), (11, "middle"), (1, "otherwise")])
def test_the_way_that_a_choice_took(amount, branch):
    with flowing() as seen, choice("size") as way:
        if way.when("large", amount > 50) or way.when("middle", amount > 10) or way.otherwise():
            double(amount)
    assert seen.one("size").branch == branch
    assert seen.tree() == ["1<0 choice size", "2<1 step double"]


def test_a_step_that_fails():
    @step("break")
    def breaks():
        raise ValueError("at all")

    with flowing() as seen, pytest.raises(ValueError):
        breaks()
    assert seen.tree() == ["1<0 step break failed"]
    error = seen.processors[0].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "at all")


def test_an_error_handler_gives_the_result():
    def refund(error, amount):
        double(amount)
        return f"{error} {amount}"

    @step("charge", on_error=refund)
    def charge(amount):
        raise ValueError("declined")

    with flowing() as seen:
        assert charge(5) == "declined 5"
    assert [line.replace(refund.__qualname__, "refund") for line in seen.tree()] == [
        "1<0 step charge handled",
        "2<1 handler refund",
        "3<2 step double",
    ]


def test_an_asynchronous_error_handler():
    async def refund(error):
        return "refunded"

    @step("charge", on_error=refund)
    async def charge():
        raise ValueError("declined")

    async def main():
        return await charge()

    with flowing() as seen:
        assert asyncio.run(main()) == "refunded"
    assert [one.status for one in seen.processors] == ["handled", "completed"]


def test_an_error_handler_that_fails():
    def refund(error):
        raise KeyError("no account") from error

    @step("charge", on_error=refund)
    def charge():
        raise ValueError("declined")

    with flowing() as seen, pytest.raises(KeyError):
        charge()
    assert [(one.kind, one.status) for one in seen.processors] == [
        ("step", "failed"),
        ("handler", "failed"),
    ]


def test_the_interpreter_s_own_exceptions_are_not_handled():
    @step("stop", on_error=lambda error: None)
    def stop():
        raise KeyboardInterrupt

    with flowing() as seen, pytest.raises(KeyboardInterrupt):
        stop()
    assert seen.tree() == ["1<0 step stop failed"]


def test_tasks_and_threads_that_carry_contexts_belong_to_the_exchange():
    async def main():
        await asyncio.gather(wait(1), asyncio.create_task(wait(2)), asyncio.to_thread(double, 3))

    with flowing() as seen:
        asyncio.run(main())
    assert sorted(one.processor_id for one in seen.processors) == ["double", "wait", "wait"]


def test_other_threads_do_not():
    with flowing() as seen, ThreadPoolExecutor(1) as pool:
        pool.submit(double, 1).result()
    assert seen.processors == ()


def test_what_comes_after_the_end_is_not_noted():
    with flowing() as seen:
        import contextvars

        later = contextvars.copy_context()
    assert later.run(double, 4) == 8
    assert seen.processors == ()


def test_two_exchanges_at_once_do_not_mix():
    async def one(n):
        with flowing() as seen:
            for part in loop("l", range(n)):
                await wait(part)
        return [x.input["n"] for x in seen.processors[1:]]

    async def main():
        return await asyncio.gather(one(2), one(3), one(4))

    assert asyncio.run(main()) == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_generator_is_no_step(is_async):
    def numbers():
        yield 1

    async def later():
        yield 1

    with pytest.raises(UsageError, match="is a generator, which cannot be a step"):
        step("numbers")(later if is_async else numbers)


def test_a_replay_can_be_told():
    with flowing(is_replay=True):
        assert is_replay()
    with flowing():
        assert not is_replay()


def test_headers_for_what_an_exchange_calls():
    with flowing():
        assert correlation() == {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}


def test_a_step_that_is_called_wrongly_says_so_itself():
    with flowing() as seen, pytest.raises(TypeError, match="double"):
        double(1, 2, 3)  # type: ignore[call-arg]
    assert seen.processors[0].input == {"args": [1, 2, 3], "kwargs": {}}
