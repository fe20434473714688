"""Record one event and keep the recording open until stdin is closed: PLACE PIPE."""

from __future__ import annotations

import sys
from pathlib import Path

from reenact import start_recording
from tests.integration.programs.acknowledge import Acknowledge
from tests.integration.stories import brief_story


def main() -> None:
    place, pipe = sys.argv[1:]
    acknowledge = Acknowledge(pipe, "holder")
    recording = start_recording(Path(place), redaction="none", seal=False)
    recording.sink.append(brief_story("holder")[0])
    acknowledge(1)
    sys.stdin.read()
    recording.finish()


main()
