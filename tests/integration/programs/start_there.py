"""Start a recording at each PLACE as USER, print the name of the error or ``ok`` for each: USER PLACE …"""

from __future__ import annotations

import os
import pwd
import shutil as _shutil  # noqa: F401 - now, while it can be read
import sys
from pathlib import Path

from reenact import start_recording
from reenact.errors import ReenactError
from reenact.store import recording as _loaded  # noqa: F401 - now, while it can be read


def start(place: str) -> str:
    try:
        start_recording(Path(place), redaction="none", seal=False).finish()
    except ReenactError as error:
        return f"{type(error).__name__} {bool(error.hint)}"
    except Exception as error:
        return f"unexpected {type(error).__name__}: {error}"
    return "ok"


# Changed here and not by the caller: the other user may not be able to start this interpreter.
user = pwd.getpwnam(sys.argv[1])
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
for argument in sys.argv[2:]:
    print(start(argument))
