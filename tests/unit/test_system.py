"""The real clock, randomness and interpreter facts for Reenact's own use."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import faulthandler, gc, threading
from reenact._system import thread_frames

class Cycle:
    def __init__(self):
        self.itself = self
        self.local = threading.local()
        self.local.value = 1

faulthandler.dump_traceback_later(60, exit=True)
ended = threading.Event()
threads = [threading.Thread(target=ended.wait) for _ in range(30)]
for thread in threads:
    thread.start()
gc.set_threshold(10)
for _ in range(1000):
    Cycle()
    assert {thread.ident for thread in threads} < thread_frames().keys()
assert gc.isenabled()
ended.set()
for thread in threads:
    thread.join()
print("listed")
"""


def test_app_does_not_freeze_when_a_collection_begins_while_threads_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "listed\n", done.stderr
