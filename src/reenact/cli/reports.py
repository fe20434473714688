"""The reports that ``--report`` of a replay writes, read back."""

from __future__ import annotations

import json
from pathlib import Path

from reenact.engine.divergence.model import Divergence
from reenact.errors import UsageError

__all__ = ["divergences_in"]


def divergences_in(report: Path) -> list[Divergence]:
    """Those that a report lists. Raises :class:`UsageError` for what is none."""
    try:
        found = json.loads(report.read_bytes())
        listed = found["divergences"]
    except OSError as error:
        raise _no_report(report, error.strerror or "cannot be read") from None
    except ValueError:
        raise _no_report(report, "it is not JSON") from None
    except (KeyError, TypeError):
        raise _no_report(report, "it has no list of divergences") from None
    return [Divergence.from_json(one) for one in listed]


def _no_report(report: Path, why: str) -> UsageError:
    return UsageError(
        f"{report} is no report: {why}", hint="reenact run --replay … --report FILE writes one"
    )
