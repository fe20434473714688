"""Handles and scopes."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import reenact
from reenact import rr
from reenact.errors import RrError, UsageError
from reenact.rr.entries import OPEN_FAILED
from tests.unit.rr.cassettes import DOWN, PING, contents, file, opened, raises_number, write

OFF = {"path": "smoke", "mode": "off"}


def test_handles_count_up_and_are_never_used_again() -> None:
    first = rr.open(OFF)
    assert first > 0
    assert (rr.close(first), rr.close(first)) == (1, 0)
    second = rr.open(OFF)
    assert second > first
    assert rr.close(second) == 1


def test_closing_what_was_never_open_does_nothing() -> None:
    assert rr.close(0) == 0
    assert rr.close(10**9) == 0


@pytest.mark.parametrize("handle", [0, -1, 10**9, None])
def test_a_dead_handle_is_a_mistake_of_the_program(handle: int) -> None:
    for use in (
        lambda: rr.next(handle, "rr", "fetch", b""),
        lambda: rr.append(handle, PING),
        lambda: rr.stats(handle),
    ):
        with pytest.raises(UsageError) as caught:
            use()
        assert not isinstance(caught.value, RrError)
        assert caught.value.hint


def test_a_closed_handle_is_dead() -> None:
    handle = rr.open(OFF)
    rr.close(handle)
    with pytest.raises(UsageError):
        rr.stats(handle)


def test_what_was_appended_is_there_when_the_handle_is_closed() -> None:
    handle = rr.open({"path": "deep/er/smoke", "mode": 1})
    rr.append(handle, PING)
    assert not file("deep/er/smoke").exists()
    rr.close(handle)
    assert contents("deep/er/smoke") == [PING]
    reenact.verify(file("deep/er/smoke"))


# Scopes


def test_scopes_nest_and_restore() -> None:
    write(PING)
    assert rr.current() == 0
    with rr.scope({"path": "smoke"}) as outer:
        assert rr.current() == outer
        with rr.scope(OFF) as inner:
            assert inner != outer
            assert rr.current() == inner
        assert rr.current() == outer
        assert rr.next(rr.current(), "rr", "fetch", b"C") == PING
    assert rr.current() == 0
    assert rr.close(outer) == 0


def test_a_scope_that_cannot_be_opened_changes_nothing() -> None:
    with rr.scope(OFF) as outer:
        with raises_number(OPEN_FAILED), rr.scope({"path": "missing"}):
            pytest.fail("the body of a scope that could not be opened was run")
        assert rr.current() == outer


def test_a_scope_closes_when_its_body_fails_and_does_not_hide_why() -> None:
    with pytest.raises(ZeroDivisionError), rr.scope({"path": "smoke", "mode": "record"}) as handle:
        rr.append(handle, PING)
        raise ZeroDivisionError
    assert rr.current() == 0
    assert rr.close(handle) == 0
    assert contents() == [PING]
    with reenact.open_recording(file()) as source:
        assert source.manifest().status == "error"


def test_a_rewrite_that_fails_keeps_the_old_cassette(capsys: pytest.CaptureFixture[str]) -> None:
    write(PING)
    before = file().read_bytes()
    with pytest.raises(ZeroDivisionError), rr.scope({"path": "smoke", "mode": "rewrite"}) as handle:
        rr.append(handle, DOWN)
        raise ZeroDivisionError
    assert file().read_bytes() == before
    assert sorted(file().parent.iterdir()) == [file()]
    assert "is unchanged" in capsys.readouterr().err


def test_a_problem_at_the_end_is_an_error_unless_the_body_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(PING)
    with opened(mode="record_missing") as first:
        rr.append(first, DOWN)
        with (
            raises_number(OPEN_FAILED),
            rr.scope({"path": "smoke", "mode": "record_missing"}) as second,
            raises_number(OPEN_FAILED),
        ):
            rr.append(second, DOWN)
        with (
            pytest.raises(ZeroDivisionError),
            rr.scope({"path": "smoke", "mode": "record_missing"}) as third,
        ):
            with raises_number(OPEN_FAILED):
                rr.append(third, DOWN)
            raise ZeroDivisionError
        assert "was not recorded" in capsys.readouterr().err


def test_a_scope_is_entered_once() -> None:
    scope = rr.scope(OFF)
    with scope:
        pass
    with pytest.raises(UsageError), scope:
        pytest.fail("it was entered twice")


def test_a_scope_may_be_left_in_another_context() -> None:
    scope = rr.scope(OFF)
    with rr.scope(OFF) as outer:
        inner = scope.__enter__()
        elsewhere = contextvars.copy_context()
        assert elsewhere.run(rr.current) == inner
        elsewhere.run(scope.__exit__, None, None, None)
        assert elsewhere.run(rr.current) == outer
        assert rr.close(inner) == 0


def test_a_handle_may_be_closed_inside_its_scope() -> None:
    with rr.scope(OFF) as handle:
        assert rr.close(handle) == 1
    assert rr.current() == 0


def test_threads_do_not_see_each_others_scopes() -> None:
    inside, looked = threading.Barrier(2), threading.Barrier(2)
    seen: dict[str, tuple[int, int]] = {}

    def work(name: str) -> None:
        with rr.scope(OFF) as handle:
            inside.wait(10)
            seen[name] = handle, rr.current()
            looked.wait(10)

    with rr.scope(OFF):
        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(mine == current for mine, current in seen.values())
    assert seen["a"] != seen["b"]


def test_tasks_do_not_see_each_others_scopes() -> None:
    async def work(entered: asyncio.Event, other: asyncio.Event) -> bool:
        async with rr.scope(OFF) as handle:
            entered.set()
            await other.wait()
            return rr.current() == handle

    async def main() -> None:
        one, two = asyncio.Event(), asyncio.Event()
        async with rr.scope(OFF) as outer:
            results = await asyncio.gather(work(one, two), work(two, one))
            assert all(results)
            assert rr.current() == outer
            inherited = await asyncio.create_task(_current())
            assert inherited == outer
        assert rr.current() == 0

    asyncio.run(main())


async def _current() -> int:
    return rr.current()


def test_another_thread_that_closes_leaves_a_clear_error() -> None:
    write(PING)
    handle = rr.open({"path": "smoke"})
    closer = threading.Thread(target=rr.close, args=(handle,))
    closer.start()
    closer.join()
    with pytest.raises(UsageError):
        rr.next(handle, "rr", "fetch", b"C")


# The name


@pytest.mark.parametrize(
    "code",
    ["import reenact; reenact.rr.open", "from reenact import rr; rr.open", "import reenact.rr"],
)
def test_the_name_is_found_and_costs_nothing_before(code: str) -> None:
    probe = f"import sys, reenact\nassert 'reenact.rr' not in sys.modules\n{code}\nprint('found')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", probe], capture_output=True, encoding="utf-8", timeout=60
    )
    assert done.stdout == "found\n", done.stderr


def test_a_process_that_never_closes_can_be_recovered(root: Path) -> None:
    code = (
        "import os\nfrom reenact import rr\n"
        "handle = rr.open({'path': 'smoke', 'mode': 'record'})\n"
        "rr.append(handle, {'kind': 'rr', 'op': 'fetch', 'key': 'C', 'req': 'C', 'resp': 'PONG'})\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=True, timeout=60)
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke"})
    assert "reenact recover" in caught.value.hint
    done = subprocess.run(
        [sys.executable, "-m", "reenact", "recover", str(file())], capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert contents() == [PING]
