"""W3C trace context as it comes in."""

import pytest

from reenact.exchange.context import (
    correlation_id_of,
    start_trace,
    trace_from_headers,
    trace_headers,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("parent", [GOOD, f"cc-{TRACE}-{SPAN}-01-what-will-be", f" {GOOD} "])
def test_a_trace_that_is_followed(parent):
    trace = trace_from_headers([("TraceParent", parent), ("tracestate", "a=b")])
    assert (trace.trace_id, trace.parent_span_id, trace.state) == (TRACE, SPAN, "a=b")
    assert trace.span_id not in (SPAN, "0" * 16)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        GOOD.upper(),
        GOOD[:-1],
    ],
)
def test_one_that_cannot_be_read_begins_anew(parent):
    trace = trace_from_headers([("traceparent", parent), ("tracestate", "a=b")])
    assert trace.trace_id != TRACE
    assert (trace.parent_span_id, trace.state) == ("", "")


def test_what_goes_out_is_followed_by_the_next():
    first = start_trace()
    second = trace_from_headers(list(trace_headers(first, "order-7").items()))
    assert (second.trace_id, second.parent_span_id) == (first.trace_id, first.span_id)
    assert correlation_id_of(list(trace_headers(first, "order-7").items())) == "order-7"
