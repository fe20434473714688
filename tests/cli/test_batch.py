"""``reenact batch`` and ``exchange ls --save``, against a real server and an agent that obeys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.server.batches.conftest import QUICK
from tests.server.batches.worker import Worker
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, exchange, result


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with running(tmp_path / "data", timings=QUICK) as house:
        house.environment("staging")
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("replayer"))
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    agent = Puppet(house)
    agent.register(containment={"drivers": [{"name": "redis", "treatment": "allow"}]})
    agent.ingest(exchange("ex-1"), exchange("ex-2"), exchange("ex-3", not_replayable="clipped"))
    return agent


def test_plan_counts_and_run_sums_up(agent: Puppet, run: Run) -> None:
    ran = run("batch", "plan", "--app", "shop", "--reason", "after the fix")
    assert (ran.code, ran.err) == (0, "")
    first, heading, group, *rest = ran.out.splitlines()
    batch = first.split()[0]
    assert first == f"{batch}  2 replays planned"
    assert heading.split() == "app environment route exchanges replays agents drivers".split()
    assert group.split() == ["shop", "staging", "orders", "3", "2", "1", "redis", "allow"]
    assert rest == [
        "  1 exchange left out: not_replayable",
        f"nothing has run yet; run it with: reenact batch run {batch}",
    ]
    with Worker(agent) as worker:
        done = run("batch", "run", batch)
        assert done.code == 0
        assert done.out.splitlines() == [
            f"batch {batch} completed: 2 ended, 1 skipped",
            "  verdicts  2 identical",
            "  outcomes  2 completed",
            "  codes     1 not_replayable",
        ]
        assert done.err.splitlines()[-1] == f"reenact: {done.out.splitlines()[0]}"
        assert worker.ran == {"ex-1": 1, "ex-2": 1}
    items = run("batch", "show", batch, "--items", "--json").json_lines()
    assert sorted(one["state"] for one in items) == ["ended", "ended", "skipped"]
    assert "identical" in run("batch", "ls").out
    assert run("batch", "show", batch).out.endswith("codes     1 not_replayable\n")


def test_run_fails_when_a_replay_differs(agent: Puppet, run: Run) -> None:
    batch = run("batch", "plan", "--exchange", "ex-1", "--json").json()["batchId"]
    with Worker(agent, result=result(99)):
        ran = run("batch", "run", batch, "--json")
    assert ran.code == 1
    assert ran.json()["progress"]["verdicts"] == {"diverged": 1}
    shown = run("batch", "show", batch, "--verdict", "diverged")
    why = "the result: /body/total differs"
    assert shown.out.splitlines()[-3].split(maxsplit=2) == ["1", "diverged", why]
    assert shown.out.splitlines()[-1].endswith(f"diverged  completed 200  {why}")


def test_a_search_is_saved_and_planned(agent: Puppet, house: House, run: Run) -> None:
    ran = run("exchange", "ls", "--route", "orders", "--save", "orders")
    assert ran.code == 0
    assert ran.err == "reenact: saved; replay it: reenact batch plan --saved 'orders'\n"
    kept = house.client(house.key("viewer")).get("/api/v1/searches/orders").json()
    assert kept["filters"] == {"route": "orders"}
    planned = run("batch", "plan", "--saved", "orders", "--json").json()
    assert planned["plan"]["exchanges"] == 3
    run("exchange", "ls", "--since", "2h", "--save", "lately")
    lately = house.client(house.key("viewer")).get("/api/v1/searches/lately").json()["filters"]
    assert lately == {"within": pytest.approx(7_200_000, abs=60_000)}


def test_cancel_and_no_wait(agent: Puppet, run: Run) -> None:
    batch = run("batch", "plan", "orders", "--json").json()["batchId"]
    ran = run("batch", "run", batch, "--no-wait")
    assert ran.code == 0
    assert ran.out.startswith(f"batch {batch} running")
    assert run("batch", "cancel", batch).out.startswith(f"batch {batch} cancel")


def test_say_which_and_say_it_once(agent: Puppet, run: Run) -> None:
    assert run("batch", "plan").code == 2
    ran = run("batch", "plan", "--app", "shop", "--saved", "x")
    assert (ran.code, ran.hint) == (2, "use one of them")
    ran = run("batch", "show", "bat_none")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "reenact: error: there is no such batch")
