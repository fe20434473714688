"""The numbers of the errors, as X07 has them. They never change."""

from __future__ import annotations

from typing import Final

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
]

STREAM_CFG_INVALID: Final = 1
"""The limits of a stream make no sense."""
STREAM_OVER_IN_BYTES: Final = 2
"""More came out of the cassette than a stream may take."""
STREAM_OVER_OUT_BYTES: Final = 3
"""A stream has handed over as many bytes as it may."""
STREAM_OVER_ITEMS: Final = 4
"""A stream has handed over as many pieces as it may."""

CFG_INVALID: Final = 2000
"""The cfg makes no sense, or its path is not safe."""
CFG_VERSION: Final = 2001
"""The cfg is of a version that is not known."""
OPEN_FAILED: Final = 2002
"""The cassette is missing, damaged or in the way, or cannot be written."""
OVER_CASSETTE_BYTES: Final = 2003
"""All entries together are too large."""
OVER_ENTRIES: Final = 2004
"""There are too many entries."""
OVER_REQ_BYTES: Final = 2005
"""A request is too large."""
OVER_RESP_BYTES: Final = 2006
"""A response is too large."""
OVER_KEY_BYTES: Final = 2007
"""A key is too long."""
ENTRY_INVALID: Final = 2008
"""Something is not an entry."""
MISS: Final = 2009
"""Nothing was recorded for this. The one error after which an adapter makes the live call."""
KIND_MISMATCH: Final = 2010
"""The next entry of the transcript has another kind."""
OP_MISMATCH: Final = 2011
"""The next entry of the transcript has another op."""
MODE_FORBIDS_NEXT: Final = 2012
"""This mode serves nothing."""
MODE_FORBIDS_APPEND: Final = 2013
"""This mode writes nothing."""
TRUNCATED: Final = 2014
"""The cassette is cut short."""
