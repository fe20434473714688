"""Make calls in a session whose recording runs out of room: CONTAINER PLACE LIMIT MODE.

LIMIT is the size that a file may have. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import reenact

COUNT = 60


def main() -> None:
    container, place, limit, mode = sys.argv[1:]
    # Python 3.11 would keep a bytecode file that the limit has cut short.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    warnings: list[str] = []
    report: dict[str, Any] = {"warnings": warnings}
    where: dict[str, Any] = {container: place}
    with reenact.session(mode=mode, warn=warnings.append, seal=False, **where) as session:
        report["answers"] = [
            session.call("f", {"n": number}, lambda: "word " * 100, capability="net.fetch") != ""
            for number in range(COUNT)
        ]
    report["status"] = None if session.manifest is None else session.manifest.status
    print(json.dumps(report))


main()
