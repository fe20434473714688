"""The recorded order of deliveries."""

from __future__ import annotations

from collections.abc import Callable

from reenact.engine.scheduling.delivery_order import DeliveryOrder, DeliveryToken


def reading(
    *tokens: tuple[DeliveryToken, str], passed: Callable[[str], bool] = lambda _: False
) -> DeliveryOrder:
    """An order that is read from these, one at a time."""
    left = list(enumerate(tokens, 1))

    def read_on() -> bool:
        if not left:
            return False
        seq, (token, lane) = left.pop(0)
        order.add(token, lane, seq)
        return True

    order = DeliveryOrder(read_on, passed)
    return order


def drained(order: DeliveryOrder) -> list[DeliveryToken]:
    found = []
    while (head := order.head()) is not None:
        found.append(head.token)
        order.drop(head.token)
    return found


def test_the_order_is_that_of_the_log() -> None:
    assert drained(reading((3, "0"), (("0", "timer:0"), "0"), (7, "0.1"))) == [
        3,
        ("0", "timer:0"),
        7,
    ]


def test_looking_at_the_head_changes_nothing_and_reads_one() -> None:
    order = reading((1, "0"), (2, "0"))
    assert [order.head(), order.head()] == [order.head()] * 2
    assert order.is_ahead(1)
    assert not order.is_ahead(2)


def test_a_head_knows_its_lane_and_its_event() -> None:
    head = reading((("0.1", "post:2"), "0.1")).head()
    assert head is not None
    assert (head.token, head.lane, head.seq) == (("0.1", "post:2"), "0.1", 1)


def test_what_was_dropped_in_between_is_stepped_over() -> None:
    order = reading((1, "0"), (2, "0"), (3, "0"))
    order.add(4, "0", 4)
    order.drop(4)
    assert drained(order) == [1, 2, 3]


def test_a_lane_that_is_passed_over_is_stepped_over_from_then_on() -> None:
    gone: set[str] = set()
    order = reading((1, "0"), (2, "0.1"), (3, "0"), passed=gone.__contains__)
    assert order.head() is not None
    gone.add("0.1")
    order.some_apart = True
    assert drained(order) == [1, 3]
    assert not order.is_ahead(2)


def test_something_that_has_not_been_read_can_be_skipped() -> None:
    timer = ("0", "timer:0")
    order = reading((1, "0"), (timer, "0"), (2, "0"))
    order.skip(timer)
    assert drained(order) == [1, 2]


def test_something_that_has_been_read_can_be_skipped() -> None:
    timer = ("0", "timer:0")
    order = reading((timer, "0"), (2, "0"))
    assert order.head() is not None
    order.skip(timer)
    assert drained(order) == [2]


def test_an_answer_that_is_not_ahead_is_skipped_without_a_trace() -> None:
    order = reading((1, "0"), (2, "0"))
    order.skip(2)  # its event has not been read: nobody can have asked for it
    assert drained(order) == [1, 2]


def test_a_family_is_left_out_whether_it_was_read_or_not() -> None:
    chunks: list[tuple[DeliveryToken, str]] = [(("0", f"chunk:1:{n}"), "0") for n in range(3)]
    others: list[tuple[DeliveryToken, str]] = [
        (("0", "chunk:11:0"), "0"),
        (("0.1", "chunk:1:0"), "0.1"),
        (("0", "timer:1"), "0"),
    ]
    order = reading(*chunks, *others)
    assert order.head() is not None
    order.leave_out("0", "chunk:1")
    assert drained(order) == [token for token, _ in others]
