"""The connection between app and server breaks in the middle of everything that goes over it, with an
end or in silence: all of it arrives, and nothing is run or stored twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.databases import DATABASES
from tests.server.fire.conftest import Scene, staged
from tests.server.fire.counting import check
from tests.server.fire.cutting import Cut, How, Where, Wire
from tests.server.fire.running import Site, closing, until

IMPATIENT = {"control_seconds": 0.7, "request_seconds": 0.7, "silence_seconds": 1.5}
"""Of a link: what says nothing for so long is dead."""
PINGS = {"ping": 0.3}
PLACES: tuple[tuple[bytes, Where], ...] = (
    (b"event: replay", "event"),
    (b"/state HTTP", "request"),
    (b"/state HTTP", "answer"),
    (b"/source HTTP", "request"),
    (b"/source HTTP", "answer"),
    (b"/recording HTTP", "answer"),
    (b"/api/v1/ingest", "request"),
    (b"/api/v1/ingest", "answer"),
)
HOWS: tuple[How, How] = ("closed", "silent")


@pytest.mark.slow
@pytest.mark.soak
def test_what_is_cut_anywhere_arrives_once(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    cuts = [Cut(seen, where, how) for how in HOWS for seen, where in PLACES]
    site = Site(tmp_path, DATABASES.address(tmp_path / "data"))
    wire = Wire(site.port)
    with closing(wire), staged(tmp_path, site, wire.url, PINGS, **IMPATIENT) as scene:
        replays = {}
        for number, cut in enumerate(cuts[:: rounds(3, 1)]):
            replays[f"r{number}"] = _cut_off(scene, wire, cut, f"r{number}")
        assert check(scene, replays)


def _cut_off(scene: Scene, wire: Wire, cut: Cut, run: str) -> str:
    until(scene.app.is_connected)
    wire.arm(cut)
    replay = scene.operator.asked(scene.source, run)
    scene.app.order(f"during-{run}")
    wire.was_cut()
    return replay
