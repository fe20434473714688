"""W3C trace context as it comes in."""

import pytest

from reenact.exchange.tracing import correlation_of, follow, new_trace, outgoing

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("parent", [GOOD, f"cc-{TRACE}-{SPAN}-01-what-will-be", f" {GOOD} "])
def test_a_trace_that_is_followed(parent):
    trace = follow([("TraceParent", parent), ("tracestate", "a=b")])
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
    trace = follow([("traceparent", parent), ("tracestate", "a=b")])
    assert trace.trace_id != TRACE
    assert (trace.parent_span_id, trace.state) == ("", "")


def test_what_goes_out_is_followed_by_the_next():
    first = new_trace()
    second = follow(list(outgoing(first, "order-7").items()))
    assert (second.trace_id, second.parent_span_id) == (first.trace_id, first.span_id)
    assert correlation_of(list(outgoing(first, "order-7").items())) == "order-7"
