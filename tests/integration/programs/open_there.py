"""Open, verify and recover each PLACE as USER, print the name of the error or ``ok`` for each: USER PLACE …"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

from reenact import open_recording, verify
from reenact.errors import ReenactError
from reenact.store.recover import recover
from tests.clocks import start_clock


def name(work: Callable[[], object]) -> str:
    try:
        work()
    except ReenactError as error:
        return type(error).__name__
    except Exception as error:
        return f"unexpected-{type(error).__name__}"
    return "ok"


def try_all(place: Path) -> None:
    print(
        name(lambda: open_recording(place).close()),
        name(lambda: verify(place)),
        name(lambda: recover(place, start_clock())),
    )


# Changed here and not by the caller: the other user may not be able to start this interpreter.
user = pwd.getpwnam(sys.argv[1])
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
for argument in sys.argv[2:]:
    try_all(Path(argument))
