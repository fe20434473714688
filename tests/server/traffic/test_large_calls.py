"""Exchanges whose recordings are small files that stand for many bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.format.event import Draft
from reenact.server.runtime import Limits
from tests.integration.small import write_small
from tests.server.house import running
from tests.server.traffic.puppet import Puppet, exchange, named, packed


def repeating(path: Path, calls: int) -> bytes:
    """A recording of calls with nearly the same argument of 100 kB, which is stored once."""
    text = "x" * 100_000
    drafts = [
        Draft(
            type="tool_call",
            data={"name": "f", "args": {"text": f"{text}{number}"}, "callId": f"c{number}"},
            ts=number + 1,
            op="f",
        )
        for number in range(calls)
    ]
    write_small(path, drafts)
    return packed(path)


@pytest.mark.parametrize(
    "path", ["/api/v1/exchanges/{}/calls", "/exchanges/{}", "/exchanges/{}/compare/small"]
)
def test_calls_of_a_small_upload_that_expand_a_lot_are_not_held_in_memory(
    tmp_path: Path, path: str
) -> None:
    with running(tmp_path / "data", limits=Limits(called=2_000_000)) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        for name, calls in (("small", 10), ("large", 40)):
            data = repeating(tmp_path / name, calls)
            assert len(data) < 10_000
            agent.ingest(exchange(name, recording=named(data)), blobs=(data,))
        reader = house.client(house.key("viewer"))
        assert reader.get(path.format("small")).status_code == 200
        answer = reader.get(path.format("large"))
        assert answer.status_code == 413, answer.text[:300]
        assert reader.get("/exchanges/large/view").status_code == 200
