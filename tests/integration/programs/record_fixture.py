"""Record the same small run, whatever the locale and the time zone, at every PLACE given.

Prints the content hash of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reenact import Redactor, start_recording
from reenact.format.event_fields import RunEnd, RunStart, ToolCall, ToolResult


def record(place: Path) -> str:
    redactor = Redactor("default", engine="python")  # the other engine takes a second to start
    with start_recording(place, redaction=redactor, seal=False) as recording:
        recording.add(RunStart(input="Grüße, мир, 世界 🌍", argv=["a", "ß"]))
        words = {"Straße", "İstanbul", "naïve", "ﬁ", "ǆ", "a", "Z", "é"}
        recording.add(ToolCall(name="sort", args={word: len(word) for word in words}, call_id="c"))
        numbers = [0.1, 1.0, 1e300, 12345678901234567890123, -0.0, 1e-7]
        recording.add(
            ToolResult(call_id="c", ok=True, result=numbers, extra={"note": "password: ünïcode1"})
        )
        data = {"source": "b", "key": "k", "valueHash": "h", "value": b"\xff\0"}
        recording.add("nondeterministic", data)
        recording.add(RunEnd(status="ok", output="done ✓", exit_code=0))
    return recording.finish().integrity.content_hash


for argument in sys.argv[1:]:
    print(record(Path(argument)))
