"""``reenact.session(…)``: how a program opens one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from reenact.boundaries.http.fork import alter_answer
from reenact.boundaries.registry import PATCHES
from reenact.engine.fork.plan import At
from reenact.engine.scheduling.scheduler import STALL_SECONDS
from reenact.engine.session.child_processes import install_patches_permanently
from reenact.engine.session.session import Session
from reenact.engine.session.settings import PaceMode, Unused, resolve_settings
from reenact.policy.model import Ignore, Policy
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.warning import Warn, print_warning

__all__ = ["keep_installed", "session"]


def session(
    name: str | None = None,
    *,
    capture: str | Path | None = None,
    tape: str | Path | None = None,
    mode: str | int | None = None,
    policy: str | Policy | None = None,
    strict: bool | None = None,
    unused: Unused | None = None,
    match: Literal["lane", "transcript", "lookup"] | None = None,
    ignore: Ignore | None = None,
    files: Sequence[str | Path] | None = None,
    allow: Sequence[str] = (),
    redaction: Profile | Redactor | None = None,
    overwrite: bool = False,
    append: bool = False,
    into: str | Path | None = None,
    fork: At | str | int | None = None,
    root: str | Path | None = None,
    fixture_root: str | Path | None = None,
    seal: bool = True,
    patience: float = STALL_SECONDS,
    pace: PaceMode = "instant",
    whole_process: bool = False,
    warn: Warn = print_warning,
) -> Session:
    """Create a session, to be entered with ``with`` or ``async with``.

    The path of the recording is one of: ``name``, a cassette under ``.reenact/cassettes/`` of the
    root (or in the ``rr`` folder of ``fixture_root``, else of ``REENACT_FIXTURE_ROOT``);
    ``capture``, a directory; ``tape``, a file.

    ``mode`` is ``off``, ``record`` (with ``overwrite`` or ``append`` for an existing recording),
    ``replay``, ``record_missing``, ``rewrite`` or ``update``. The default is the mode of the
    policy, else ``replay``. A ``strict`` replay raises at the first divergence, a lenient one
    continues and collects them. By default it is lenient only at a terminal and outside CI.
    ``into`` records the replay. ``fork`` re-enacts up to a call, strictly, and then continues
    live: ``last-llm``, the seq of an event, ``tool:2``, or an :class:`At` with more options. The
    complete run is recorded ``into`` a new path.

    ``patience`` is the number of seconds that a replay with threads can be idle before it counts
    as stalled. With the ``pace`` ``recorded`` a replay takes as long as the recorded calls did,
    otherwise results come at once. ``files`` are folders and files, relative to the root, whose
    reads and writes are recorded; the default is the list of the policy. ``allow`` names
    boundaries (``process.exec``) and drivers (``sqlite3``) whose calls are made live, counted, and
    not recorded.

    Raises :class:`UsageError` or a subclass for invalid arguments. Entering the session raises the
    errors of opening the recording and its sink.
    """
    return Session(
        resolve_settings(
            name,
            capture=capture,
            tape=tape,
            mode=mode,
            policy=policy,
            strict=strict,
            unused=unused,
            match=match,
            ignore=ignore,
            files=files,
            allow=allow,
            root=root,
            fixture_root=fixture_root,
            warn=warn,
            redaction=redaction,
            overwrite=overwrite,
            append=append,
            into=None if into is None else Path(into),
            fork=fork if fork is None or isinstance(fork, At) else At(fork),
            alter=alter_answer,
            seal=seal,
            patience=patience,
            pace=pace,
            whole_process=whole_process,
            boundaries=PATCHES,
        )
    )


def keep_installed() -> None:
    """Keep the patches of sessions installed, for a process that opens many sessions.

    The next session then opens faster. Calls outside of sessions are not affected.
    """
    install_patches_permanently(PATCHES)
