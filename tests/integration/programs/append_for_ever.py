"""Append events in a tight loop and acknowledge each: PLACE DURABILITY SEED PIPE."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from reenact import start_recording
from tests.integration.programs.acknowledge import Acknowledge
from tests.integration.stories import long_story


def main() -> None:
    place, durability, seed, pipe = sys.argv[1:]
    acknowledge = Acknowledge(pipe, "appended")
    recording = start_recording(
        Path(place), redaction="none", seal=False, durability=cast(Any, durability)
    )
    started = Acknowledge(pipe, "started")
    started(0)
    for index, draft in enumerate(long_story(seed)):
        recording.sink.append(draft)
        acknowledge(index)


main()
