"""Which libraries are covered, and where. A library is touched when the program imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import msgspec

from reenact.boundaries.files.needed import Files
from reenact.engine.patches.patch import DeferredPatches, Installable, PatchSet
from reenact.engine.session.session import Session
from reenact.hermetic.guard import Guard
from reenact.hermetic.network_libraries import NetworkLibrary, installed_libraries

__all__ = [
    "CLIENTS",
    "DRAWN",
    "FACTS",
    "PATCHES",
    "PROCESSES",
    "TABLE",
    "Boundary",
    "add_boundary",
    "added",
    "covered",
    "uncovered",
]

Seams = Callable[[ModuleType], Sequence[Installable]]


class Boundary(msgspec.Struct, frozen=True):
    """One library.

    ``module`` is the module whose import installs it; ``seams`` makes the patches, given that
    module. ``seams`` may be the name ``package.module:function``, which is then imported only
    when it is needed.
    """

    name: str
    module: str
    seams: Seams | str

    def patches(self, module: ModuleType) -> Sequence[Installable]:
        """The patches of ``module``; none of them is installed yet."""
        if not isinstance(self.seams, str):
            return self.seams(module)
        home, _, function = self.seams.partition(":")
        make: Seams = getattr(import_module(home), function)
        return make(module)

    def load(self) -> None:
        """Import what makes the patches, if they will be made at once."""
        if isinstance(self.seams, str) and self.module in sys.modules:
            import_module(self.seams.partition(":")[0])


def _own(name: str, module: str, home: str) -> Boundary:
    """``home`` is a module of this package, whose function is ``seams`` where none is named."""
    place, _, function = home.partition(":")
    return Boundary(name, module, f"reenact.boundaries.{place}:{function or 'seams'}")


PROCESSES = (
    _own("subprocess", "subprocess", "processes.seams"),
    _own("os.system", "os", "processes.system"),
    _own("asyncio.subprocess", "asyncio.base_subprocess", "processes.tasks"),
)
"""What starts programs and sends them signals."""

DRAWN = (
    _own("time", "time", "clock"),
    _own("datetime", "datetime", "dates"),
    _own("os.urandom", "os", "chance.system"),
    _own("random", "random", "chance.generators"),
    _own("uuid", "uuid", "chance.identifiers"),
    _own("fastuuid", "fastuuid", "chance.compiled"),
    _own("uuid_utils", "uuid_utils", "chance.compiled"),
    _own("tempfile", "tempfile", "chance.temporary"),
    _own("numpy.random", "numpy.random", "chance.arrays"),
)
"""What programs draw from: clock and chance."""

FACTS = (
    _own("os.environ", "os", "host.environment"),
    *(
        _own(f"{name} facts", name, "host.machine")
        for name in "os getpass locale multiprocessing platform pwd shutil socket".split()
    ),
    _own("os folders", "os", "host.folders:os_seams"),
    _own("os.path folders", "posixpath", "host.folders:path_seams"),
    _own("os ids", "os", "host.identities:os_seams"),
    _own("signal ids", "signal", "host.identities:signal_seams"),
    _own("multiprocessing ids", "multiprocessing.process", "host.identities:process_seams"),
)
"""What programs learn of the machine."""

CLIENTS = (
    _own("httpx", "httpx", "httpx"),
    _own("httpx2", "httpx2", "httpx"),
    _own("requests", "requests.adapters", "requests"),
    _own("urllib3", "urllib3.connectionpool", "urllib3.seams"),
    _own("botocore", "botocore.httpsession", "botocore"),
    _own("http.client", "http.client", "http_client.seams"),
    _own("aiohttp", "aiohttp", "aiohttp.seams"),
    _own("websockets", "websockets.asyncio.client", "websockets.tasks"),
    _own("websockets.sync", "websockets.sync.client", "websockets.threads"),
    _own("mcp stdio", "mcp.client.stdio", "mcp.seams:stdio_seams"),
    _own("mcp streamable HTTP", "mcp.client.streamable_http", "mcp.seams:http_seams"),
    _own("mcp SSE", "mcp.client.sse", "mcp.seams:sse_seams"),
)
"""The libraries that talk to others."""

TABLE = (*PROCESSES, *DRAWN, *FACTS, *CLIENTS)
"""What is covered without anybody asking. First what sends signals: the numbers of processes that
the program is told are those of the recording, and a signal needs those of the present."""

_added: list[Boundary] = []


def add_boundary(boundary: Boundary) -> None:
    """Cover one more library, in the sessions that open from now on."""
    _added.append(boundary)


def added() -> Sequence[Boundary]:
    """Those that were added."""
    return tuple(_added)


def covered() -> list[str]:
    """The names of the libraries that talk to others and have a boundary."""
    return [boundary.name for boundary in (*CLIENTS, *_added)]


def uncovered() -> list[NetworkLibrary]:
    """The known network stacks that are installed and have no boundary."""
    return installed_libraries(_modules())


def _modules() -> set[str]:
    return {boundary.module for boundary in (*CLIENTS, *_added)}


_GUARD = Guard(covered, _modules)
_FILES = Files()


def _opened(session: Session) -> None:
    _GUARD.opened(session)
    _FILES.opened(session)


def _patches() -> list[Installable]:
    boundaries = (*TABLE, *_added)
    for boundary in boundaries:
        boundary.load()  # all before the first is installed: each import makes the next look around
    late = (DeferredPatches(boundary.module, boundary.patches) for boundary in boundaries)
    return [_GUARD, *late, _FILES]


PATCHES = PatchSet(_patches, opened=_opened, in_replay=PatchSet(lambda: _GUARD.in_replay))
"""Installed while a session needs them."""
