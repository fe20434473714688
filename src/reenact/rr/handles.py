"""Cassettes by number, and the one that is in force here."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from itertools import count
from types import TracebackType
from typing import Any, Final

import msgspec

from reenact.engine.session.context import context_outside_sessions
from reenact.errors import ReenactError, UsageError
from reenact.rr.cassette import Cassette
from reenact.rr.config import Cfg, Config, prepare_cassette, read_cfg
from reenact.rr.entries import Entry
from reenact.store.warning import print_warning

__all__ = [
    "Scope",
    "append",
    "close",
    "current",
    "entry_err",
    "entry_resp",
    "next_entry",
    "open_handle",
    "scope",
    "stats",
    "with_policy",
]

# Each is one step for other threads: a number is drawn, a cassette is put in or taken out.
_numbers = count(1)
_open: Final[dict[int, Cassette]] = {}
_current: Final[ContextVar[int]] = ContextVar("reenact.rr", default=0)


def open_handle(cfg: Cfg, *, policy: str | bytes | None = None) -> int:
    """Open a cassette and return its handle: 1, 2, …, never used again.

    ``cfg`` is an X07 cfg document or a mapping with these keys:

    - ``path``: below ``.reenact/cassettes/``. With ``fixture_root`` (or ``REENACT_FIXTURE_ROOT``) it
      is below the ``rr`` folder of that root. A path that ends in ``.rrbin`` is an X07 cassette,
      which is read and written in its own format.
    - ``mode`` (a name or 0 to 4), and ``match_mode`` (``lookup`` or ``transcript``, 0 or 1).
    - the limits ``max_cassette_bytes``, ``max_entries``, ``max_req_bytes``, ``max_resp_bytes`` and
      ``max_key_bytes``. 0 means zero, and an omitted limit is unlimited.
    - ``append`` or ``overwrite``, for the mode ``record``.
    - ``policy``.

    ``policy`` is the id of a pinned policy, by default the policy of the project. Its modes, worlds,
    kinds, operations, budgets and sanitizer apply. Raises :class:`RrError` 2000 to 2008 and 2014,
    :class:`PolicyInvalid` for a policy that does not exist or differs from its pin, and
    :class:`PolicyRefused` if the index does not allow it.
    """
    cassette = context_outside_sessions().run(_opened, read_cfg(cfg, policy))
    handle = next(_numbers)
    _open[handle] = cassette
    return handle


# Files of cassettes and policies are read and written outside any session. Otherwise a session
# that records the project's files would record them as calls of the program.


def _opened(config: Config) -> Cassette:
    ready = prepare_cassette(config)
    try:
        return Cassette(ready)
    except BaseException:
        ready.give_up()
        raise


def close(handle: int) -> int:
    """Close a handle and return 1, or 0 if it is already closed.

    Appended entries are complete after this call. A rewrite replaces the old cassette now, if
    anything was appended. Raises :class:`RrError` 2002 if that fails.
    """
    return _close(handle, None)


def _close(handle: int, error: BaseException | None) -> int:
    cassette = _open.pop(handle, None)
    return int(cassette is not None and context_outside_sessions().run(cassette.close, error))


def next_entry(handle: int, kind: str | bytes, op: str | bytes, key: str | bytes) -> Entry:
    """The recorded entry for this call; each is served once.

    By ``lookup`` the earliest unused one with the same kind, op and key; by ``transcript`` the next
    one, which must have this kind, this op and, unless it is empty, this key. After an error
    nothing has moved. Raises :class:`RrError` 2007 and 2009 to 2012.
    """
    return context_outside_sessions().run(_of(handle).next, kind, op, key)


def append(handle: int, entry: Entry | Mapping[str, Any]) -> None:
    """Add an entry. It is in the file when this returns, and is not served by this handle.

    Secrets are taken out first, and budgets hold for what is written. Raises :class:`RrError` 2002
    to 2008 and 2013.
    """
    context_outside_sessions().run(_of(handle).append, entry)


def entry_resp(entry: Entry) -> bytes:
    """What came back."""
    return entry.resp


def entry_err(entry: Entry) -> int:
    """The number of the error that the live call ended with, 0 for none."""
    return entry.err


def stats(handle: int) -> bytes:
    """Return ``{"v":1,"mode":…,"match_mode":…,"cassettes":…,"entries":…,"used":…,"bytes":…}`` as
    JSON.

    ``entries`` and ``bytes`` count the complete cassette, as far as the mode reads it, and appended
    entries.
    """
    return msgspec.json.encode(_of(handle).stats())


def current() -> int:
    """The handle of the innermost scope here, 0 outside any."""
    return _current.get()


def _of(handle: int) -> Cassette:
    cassette = _open.get(handle)
    if cassette is None:
        raise UsageError(
            f"the handle {handle!r:.20} is not open",
            hint="rr.open gives handles, and rr.close ends them for good",
        )
    return cassette


class Scope:
    """``with`` and ``async with``: opens on entry, gives the handle, closes however it is left.

    Inside, :func:`current` is the handle; after it what it was before. A body that ends with an
    exception leaves a cassette that was to be rewritten as it was.
    """

    def __init__(self, cfg: Cfg, policy: str | bytes | None = None) -> None:
        self._cfg = cfg
        self._policy = policy
        self._handle = 0
        self._token: Token[int] | None = None
        self._before = 0

    def __enter__(self) -> int:
        if self._handle:
            raise UsageError(
                "a scope can be entered only once", hint="create a new scope: rr.scope(cfg)"
            )
        self._handle = open_handle(self._cfg, policy=self._policy)
        self._before = _current.get()
        self._token = _current.set(self._handle)
        return self._handle

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        try:
            _close(self._handle, error)
        except ReenactError as problem:
            if error is None:
                raise
            print_warning(problem.message)  # never hides what the body raised

    def _restore(self) -> None:
        assert self._token is not None
        try:
            _current.reset(self._token)
        except ValueError:  # exited in a different context, as fixtures do
            _current.set(self._before)

    async def __aenter__(self) -> int:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


def scope(cfg: Cfg, *, policy: str | bytes | None = None) -> Scope:
    """Return a scope that opens its own cassette. Takes the arguments of :func:`reenact.rr.open`."""
    return Scope(cfg, policy)


def with_policy(
    policy_id: str | bytes, cassette_path: str | bytes, mode: int | str | None = None
) -> Scope:
    """Return a scope under the pinned policy ``policy_id``, like X07's ``with_policy_v1``.

    ``cassette_path`` is a path below ``.reenact/cassettes/`` or the fixture root. ``mode`` is
    0 ``off``, 1 ``record``, 2 ``replay``, 3 ``record_missing`` or 4 ``rewrite``, by number, by name
    or by X07's name such as ``replay_v1``; by default the mode of the policy. The policy also
    decides how entries are matched.
    """
    cfg = {"path": cassette_path} if mode is None else {"path": cassette_path, "mode": mode}
    return Scope(cfg, policy_id)
