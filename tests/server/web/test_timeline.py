"""The rows of an exchange: in their time, and what has none after all that has."""

from __future__ import annotations

from reenact.exchange.comparison.calls import Call
from reenact.exchange.model import Processor
from reenact.server.web.exchanges.calls import CallDetails
from reenact.server.web.exchanges.timeline import timeline_rows
from tests.server.house import START
from tests.server.traffic.puppet import exchange

STEPS = tuple(
    Processor(processor_id=name, seq=seq, started_at=START + seq, duration=0.5)
    for seq, name in enumerate(("check", "items"), 1)
)


def told(seq: int, began: int, *, refused: bool = False) -> CallDetails:
    call = Call(seq=seq, type="network", operation=f"GET {seq}", refused=refused)
    return CallDetails(call=call, began=began, ended=began)


def names(*calls: CallDetails) -> list[str]:
    return [
        one.processor.processor_id
        if one.processor is not None
        else str(one.told and one.told.call.seq)
        for one in timeline_rows(exchange(processors=STEPS), calls)
    ]


def test_a_call_stands_where_it_began() -> None:
    assert names(told(7, START + 1)) == ["check", "7", "items"]


def test_a_call_that_was_refused_is_not_the_first_thing_that_happened() -> None:
    assert names(told(7, 0, refused=True)) == ["check", "items", "7"]
