"""What the programs that get killed write, and the tests expect."""

from __future__ import annotations

from typing import Any

__all__ = ["KEY", "OLD", "PARTS", "PASSWORDS", "SECRET", "SECRET_ANSWER", "TAPE_STORY"]

KEY = bytes(range(32))
PARTS = ("0", "0.1", "0.2")
"""The lanes of the three processes of a capture; also the seeds of their stories."""

OLD = "the recording that is replaced"
TAPE_STORY = "tape"
SECRET = "hunter" + "2-but-longer"
SECRET_ANSWER: dict[str, Any] = {"callId": "call_9", "ok": True, "result": {"password": SECRET}}
PASSWORDS = "not-" + "telling-%d"
"""A password, different in every event."""
