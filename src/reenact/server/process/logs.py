"""Log of the process on stderr: text lines or JSON objects.

Neither contains payloads, secrets or client addresses. A request is logged with its id, route,
status, duration and the id of its caller.
"""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

__all__ = ["FACTS", "LOG_FORMS", "JsonLines", "LogForm", "log_to_stderr"]

LogForm = Literal["text", "json"]
LOG_FORMS: Final[tuple[LogForm, ...]] = ("text", "json")
_LEVELS: Final = (("reenact.server", logging.INFO), ("uvicorn.error", logging.WARNING))
FACTS: Final = "facts"
"""Under this name a record carries what it is about, as values."""


class JsonLines(logging.Formatter):
    """``time`` (UTC), ``level``, ``logger``, and the facts of the record, or else its ``message``."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        facts = getattr(record, FACTS, None)
        said |= facts if isinstance(facts, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = _where(record.exc_info[1])
        return msgspec.json.encode(said).decode()


def _where(error: BaseException) -> dict[str, object]:
    """Type and place of an error. Its message may have values in it, and stays out."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"type": type(error).__name__, "at": lines}


def log_to_stderr(form: LogForm) -> None:
    """For the whole process."""
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(form))
    for name, level in _LEVELS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False


def _formatter(form: LogForm) -> logging.Formatter:
    if form == "json":
        return JsonLines()
    return logging.Formatter("%(asctime)s %(levelname)s %(message)s")
