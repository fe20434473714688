"""Low-level API: cassettes by handle, with the numbers of X07's ``std.rr``.

No function here makes a live call. A program looks up a call with :func:`next`, makes the live call
itself after a miss (:data:`MISS`), and stores the result with :func:`append`. :func:`stream`
returns a recorded response in chunks.
"""

from reenact.rr.entries import (
    CFG_INVALID,
    CFG_VERSION,
    ENTRY_INVALID,
    KIND_MISMATCH,
    MISS,
    MODE_FORBIDS_APPEND,
    MODE_FORBIDS_NEXT,
    OP_MISMATCH,
    OPEN_FAILED,
    OVER_CASSETTE_BYTES,
    OVER_ENTRIES,
    OVER_KEY_BYTES,
    OVER_REQ_BYTES,
    OVER_RESP_BYTES,
    STREAM_CFG_INVALID,
    STREAM_OVER_IN_BYTES,
    STREAM_OVER_ITEMS,
    STREAM_OVER_OUT_BYTES,
    TRUNCATED,
    Entry,
)
from reenact.rr.handles import (
    Scope,
    append,
    close,
    current,
    entry_err,
    entry_resp,
    scope,
    stats,
    with_policy,
)
from reenact.rr.handles import next_entry as next
from reenact.rr.handles import open_handle as open
from reenact.rr.streaming import Stream, stream

__all__ = [
    "CFG_INVALID",
    "CFG_VERSION",
    "ENTRY_INVALID",
    "KIND_MISMATCH",
    "MISS",
    "MODE_FORBIDS_APPEND",
    "MODE_FORBIDS_NEXT",
    "OPEN_FAILED",
    "OP_MISMATCH",
    "OVER_CASSETTE_BYTES",
    "OVER_ENTRIES",
    "OVER_KEY_BYTES",
    "OVER_REQ_BYTES",
    "OVER_RESP_BYTES",
    "STREAM_CFG_INVALID",
    "STREAM_OVER_IN_BYTES",
    "STREAM_OVER_ITEMS",
    "STREAM_OVER_OUT_BYTES",
    "TRUNCATED",
    "Entry",
    "Scope",
    "Stream",
    "append",
    "close",
    "current",
    "entry_err",
    "entry_resp",
    "next",
    "open",
    "scope",
    "stats",
    "stream",
    "with_policy",
]
