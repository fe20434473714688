"""Registry of covered libraries and their patches.

A library is patched when the program imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import msgspec

from reenact.boundaries.files.on_demand import Files
from reenact.engine.patches.patch import DeferredPatches, Installable, PatchSet
from reenact.engine.session.session import Session
from reenact.hermetic.guard import Guard
from reenact.hermetic.network_libraries import NetworkLibrary, installed_libraries

__all__ = [
    "CLIENTS",
    "DRAWS",
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

PatchFactory = Callable[[ModuleType], Sequence[Installable]]


class Boundary(msgspec.Struct, frozen=True):
    """A covered library.

    The import of ``module`` installs its patches. ``factory`` creates them from that module. It is a
    function, or the name of one as ``package.module:function``, which is imported on demand.
    """

    name: str
    module: str
    factory: PatchFactory | str

    def patches(self, module: ModuleType) -> Sequence[Installable]:
        """Create the patches of ``module`` without installing them."""
        if not isinstance(self.factory, str):
            return self.factory(module)
        home, _, function = self.factory.partition(":")
        factory: PatchFactory = getattr(import_module(home), function)
        return factory(module)

    def load(self) -> None:
        """Import the module of the factory if the library is already imported."""
        if isinstance(self.factory, str) and self.module in sys.modules:
            import_module(self.factory.partition(":")[0])


def _own(name: str, module: str, function: str) -> Boundary:
    return Boundary(name, module, f"reenact.boundaries.{function}")


PROCESSES = (
    _own("subprocess", "subprocess", "processes.popen:popen_patches"),
    _own("os.system", "os", "processes.os_functions:patches"),
    _own(
        "asyncio.subprocess",
        "asyncio.base_subprocess",
        "processes.asyncio_subprocess:asyncio_patches",
    ),
)
"""Functions that start programs and send signals to them."""

DRAWS = (
    _own("time", "time", "clock:time_patches"),
    _own("datetime", "datetime", "clock:datetime_patches"),
    _own("os.urandom", "os", "random.urandom:urandom_patches"),
    _own("random", "random", "random.stdlib:random_patches"),
    _own("uuid", "uuid", "random.uuids:uuid_patches"),
    _own("fastuuid", "fastuuid", "random.uuids:compiled_uuid_patches"),
    _own("uuid_utils", "uuid_utils", "random.uuids:compiled_uuid_patches"),
    _own("tempfile", "tempfile", "random.stdlib:tempfile_patches"),
    _own("numpy.random", "numpy.random", "random.numpy:patches"),
)
"""Clocks and sources of random values."""

FACTS = (
    _own("os.environ", "os", "host.environment:environment_patches"),
    *(
        _own(f"{name} facts", name, "host.facts:fact_patches")
        for name in "os getpass locale multiprocessing platform pwd shutil socket".split()
    ),
    _own("os folders", "os", "host.directories:working_directory_patches"),
    _own("os.path folders", "posixpath", "host.directories:home_directory_patches"),
    _own("os ids", "os", "host.process_ids:os_patches"),
    _own("signal ids", "signal", "host.process_ids:signal_patches"),
    _own(
        "multiprocessing ids", "multiprocessing.process", "host.process_ids:multiprocessing_patches"
    ),
)
"""Facts about the machine and the process."""

CLIENTS = (
    _own("httpx", "httpx", "httpx:patches"),
    _own("httpx2", "httpx2", "httpx:patches"),
    _own("requests", "requests.adapters", "urllib3:requests_patches"),
    _own("urllib3", "urllib3.connectionpool", "urllib3:patches"),
    _own("botocore", "botocore.httpsession", "urllib3:botocore_patches"),
    _own("http.client", "http.client", "http_client:patches"),
    _own("aiohttp", "aiohttp", "aiohttp.patches:patches"),
    _own("websockets", "websockets.asyncio.client", "websockets.asyncio_client:patches"),
    _own("websockets.sync", "websockets.sync.client", "websockets.sync_client:patches"),
    _own("mcp stdio", "mcp.client.stdio", "mcp.transports:stdio_patches"),
    _own("mcp streamable HTTP", "mcp.client.streamable_http", "mcp.transports:http_patches"),
    _own("mcp SSE", "mcp.client.sse", "mcp.transports:sse_patches"),
)
"""Network client libraries."""

TABLE = (*PROCESSES, *DRAWS, *FACTS, *CLIENTS)
"""Boundaries that are always active.

Signal functions come first, because the program sees recorded process ids and a signal needs the
current ones.
"""

_added: list[Boundary] = []


def add_boundary(boundary: Boundary) -> None:
    """Add a boundary for sessions that open later."""
    _added.append(boundary)


def added() -> Sequence[Boundary]:
    """Return the boundaries that were added."""
    return tuple(_added)


def covered() -> list[str]:
    """Return the names of the network libraries with a boundary."""
    return [boundary.name for boundary in (*CLIENTS, *_added)]


def uncovered() -> list[NetworkLibrary]:
    """Return the installed network libraries without a boundary."""
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
