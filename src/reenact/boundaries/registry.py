"""Registry of covered libraries and their patches.

A library is patched when the program imports it. Other packages add boundaries with entry points, see
``docs/guides/adding-a-client.md``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import msgspec

from reenact._plugins import BOUNDARIES, EntryPoint, entry_points
from reenact.engine.patches.patch import DeferredPatches, ImportHook, Installable, PatchSet
from reenact.engine.session.session import Session
from reenact.errors import PluginBroken
from reenact.hermetic.guard import Guard, add_checks, holding
from reenact.hermetic.network_libraries import NetworkLibrary, installed_libraries
from reenact.lenses.registry import installed_lenses
from reenact.store.warning import print_warning

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
    package: str = ""
    """Name and version of the installed package that adds it, empty for Reenact's own."""

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
    """Return the boundaries that the program and installed packages have added."""
    return *_added, *map(_boundary_of, entry_points(BOUNDARIES))


def _boundary_of(point: EntryPoint) -> Boundary:
    return Boundary(point.name, point.name, point.value, point.package)


def covered() -> list[str]:
    """Return the names of the network libraries with a boundary."""
    return [boundary.name for boundary in (*CLIENTS, *added())]


def uncovered() -> list[NetworkLibrary]:
    """Return the installed network libraries without a boundary."""
    return installed_libraries(_modules())


def _modules() -> set[str]:
    return {boundary.module for boundary in (*CLIENTS, *added())}


class _Files:
    """File boundary, which is installed and removed with the others and notified of every session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: list[Installable] = []
        self._watches = False
        self._guards = False

    def install(self) -> None:
        """Do nothing: the first session that needs the file boundary installs it."""

    def opened(self, session: Session) -> None:
        """Install the patches that ``session`` needs."""
        if session.settings.scratch is not None:
            self._guard()
        if session.settings.files:
            self._watch()

    def _watch(self) -> None:
        """Install the patches for a session with file roots."""
        from reenact.boundaries.files.patches import file_patches

        with self._lock:
            if not self._watches:
                self._watches = True
                self._put(file_patches())

    def _guard(self) -> None:
        """Install the patches for a session with scratch folders."""
        from reenact.boundaries.files.write_guard import (
            CHECKS,
            patches,  # as above
        )

        with self._lock:
            if not self._guards:
                self._guards = True
                self._put(patches())
                add_checks(CHECKS)

    def _put(self, patches: list[Installable]) -> None:
        for patch in patches:
            patch.install()
            self._installed.append(patch)

    def remove(self) -> None:
        """Put the originals back. The guard, which is removed next, forgets the checks."""
        with self._lock:
            for patch in reversed(self._installed):
                patch.remove()
            self._installed = []
            self._watches = self._guards = False


class _InstalledBoundary:
    """Boundary of another installed package. A broken one does not affect a recorded program.

    While recording, the problem is a warning, and the calls are not recorded. In a replay the import
    of the library fails, because it would send requests that the recording has.
    """

    def __init__(self, point: EntryPoint) -> None:
        self.problem: PluginBroken | None = None
        self._point = point
        self._installed: list[Installable] = []
        self._hook = ImportHook(point.name, self._imported)

    def install(self) -> None:
        self._hook.install()

    def _imported(self, module: ModuleType) -> None:
        try:
            for patch in self._point.load()(module):
                patch.install()
                self._installed.append(patch)
        except Exception as error:  # noqa: BLE001 - a foreign module can raise anything
            self._remove_patches()
            self.problem = self._point.broken(error)
            _report_broken(holding(), self.problem)

    def remove(self) -> None:
        self._hook.remove()
        self._remove_patches()

    def _remove_patches(self) -> None:
        for patch in reversed(self._installed):
            patch.remove()
        self._installed = []


class _InstalledBoundaries:
    """Boundaries and lenses of all other installed packages."""

    def __init__(self) -> None:
        self._boundaries: list[_InstalledBoundary] = []

    def install(self) -> None:
        for point in entry_points(BOUNDARIES):
            boundary = _InstalledBoundary(point)
            self._boundaries.append(boundary)
            boundary.install()
        # Loaded here, because an import in the middle of the first model call would be part of it.
        installed_lenses(again=True)

    def opened(self, session: Session) -> None:
        """Report broken packages to ``session``. Raises :class:`PluginBroken` for a replay."""
        for boundary in self._boundaries:
            if boundary.problem is not None:
                _report_broken(session, boundary.problem)
        for problem in installed_lenses().broken:
            _report_broken(session, problem)

    def remove(self) -> None:
        for boundary in reversed(self._boundaries):
            boundary.remove()
        self._boundaries = []


def _report_broken(session: Session | None, problem: PluginBroken) -> None:
    if session is None:
        print_warning(str(problem))
    elif session.mode in ("record", "rewrite"):
        session.warn_once(f"{problem} (its calls are recorded without it, or not at all)")
    else:
        raise problem


_GUARD = Guard(covered, _modules)
_INSTALLED = _InstalledBoundaries()
_FILES = _Files()


def _opened(session: Session) -> None:
    _GUARD.opened(session)
    try:
        _INSTALLED.opened(session)
    except PluginBroken as problem:
        session.__exit__(PluginBroken, problem, None)  # the body of its ``with`` never begins
        raise
    _FILES.opened(session)


def _patches() -> list[Installable]:
    boundaries = (*TABLE, *_added)
    for boundary in boundaries:
        boundary.load()  # all before the first is installed: each import makes the next look around
    late = (DeferredPatches(boundary.module, boundary.patches) for boundary in boundaries)
    return [_GUARD, *late, _INSTALLED, _FILES]


PATCHES = PatchSet(_patches, opened=_opened, in_replay=PatchSet(lambda: _GUARD.in_replay))
"""Installed while a session needs them."""
