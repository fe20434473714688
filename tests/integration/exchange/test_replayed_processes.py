"""Processes of an app that were running before a replay get no work from it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from reenact.exchange import Message
from tests.integration.exchange.apps import only, replay


def _append(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("x")


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_job_for_a_running_process_pool_is_refused_in_a_replay(make_agent, tmp_path, boundaries):
    agent = make_agent()
    path = tmp_path / "witness"
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:

        @agent.route("orders")
        def orders(message: Message) -> None:
            pool.submit(_append, path).result()

        pool.submit(_append, path).result()
        orders({})
        again = replay(agent, only(agent), tmp_path / "replayed", boundaries=boundaries).exchange
        assert path.read_text(encoding="utf-8") == "xx"
        pool.submit(_append, path).result()
        assert path.read_text(encoding="utf-8") == "xxx"
    assert again.replay is not None
    assert [one["detail"] for one in again.replay.divergences if "submits a job" in one["detail"]]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_process_that_would_be_in_no_session_is_not_started_by_a_replay(
    make_agent, tmp_path, method
):
    agent = make_agent()
    path = tmp_path / "witness"
    context = multiprocessing.get_context(method)

    @agent.route("orders")
    def orders(message: Message) -> None:
        process = context.Process(target=_append, args=(path,))
        process.start()
        process.join()

    orders({})
    again = replay(agent, only(agent), tmp_path / "replayed").exchange
    assert path.read_text(encoding="utf-8") == "x"
    assert again.replay is not None
    assert ["that is not forked" in one["detail"] for one in again.replay.divergences] == [True]
