"""Record where there is little room, and go on when it runs out: PLACE FSIZE ROOM SEAL OVERWRITE.

FSIZE limits the size of a file (0: no limit). ROOM is a file that fills the disk: it is removed
before finalising, when it is given (else ``-``). Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from reenact import Redactor, start_recording
from reenact.errors import ReenactError
from tests.integration.scenes import PASSWORDS


def main() -> None:
    place, limit, room, seal, overwrite = sys.argv[1:]
    if int(limit):
        # Python 3.11 would keep a bytecode file that the limit has cut short.
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    warnings: list[str] = []
    acknowledged: list[int] = []
    report: dict[str, object] = {"warnings": warnings, "acknowledged": acknowledged}
    try:
        recording = start_recording(
            Path(place),
            redaction=Redactor("default", engine="python"),
            seal=seal == "sealed",
            durability="event",
            overwrite=overwrite == "overwrite",
            warn=warnings.append,
        )
        for index in range(400):
            result = {"i": index, "text": "word " * 40, "password": PASSWORDS % index * 60}
            data = {"callId": str(index), "ok": True, "result": result}
            if recording.add("tool_result", data, op=str(index % 3)):
                acknowledged.append(index)
        report["went on"] = True
        if room != "-":
            os.unlink(room)
        report["status"] = recording.finish().status
    except ReenactError as error:
        report["error"] = type(error).__name__
        report["code"] = error.code
    print(json.dumps(report))


main()
