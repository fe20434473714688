"""Model calls as conversations, and the alignment of their messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from reenact.diff.sequences import pair_up
from reenact.lenses.conversation import read_event
from reenact.lenses.model import Asked, Choice, Message
from reenact.lenses.registry import messages
from reenact.views.calls import RecordedCall
from reenact.views.content import meaning_of
from reenact.views.html.values import key_of

__all__ = ["conversation", "message_pairs", "without_messages", "words_of"]

_ANSWER = "answer"
_MESSAGES = ("messages", "input", "contents", "system", "systemInstruction", "instructions")
_ABOUT = ("role", "stopped", "usage", "error")

Said = dict[str, Any]


def conversation(step: RecordedCall | None) -> list[Said] | None:
    """Return the messages of a model call, the response last, or None without a suitable lens."""
    asked = None if step is None or step.kind != "llm" else read_event(step.asked)
    if step is None or not isinstance(asked, Asked):
        return None
    found = [_said(one.role, one) for one in messages(asked)]
    answer = meaning_of(step)
    if answer is not None:
        about = {
            "stopped": answer.stop_reason,
            "usage": answer.usage,
            "error": answer.error,
            "others": [_said(_ANSWER, one) for one in answer.others],
        }
        found.append(_filled({**_said(_ANSWER, answer), **about}))
    return found


def _said(role: str, message: Message | Choice) -> Said:
    """Return a message without generated ids."""
    return _filled(
        {
            "role": role,
            "reasoning": "\n\n".join(one.text for one in message.reasoning if one.text),
            "text": message.text,
            "calls": [[use.name, msgspec.to_builtins(use.arguments)] for use in message.tool_calls],
            "results": [[one.name, one.text] for one in getattr(message, "results", ())],
            "attached": list(getattr(message, "attached", ())),
            "refusal": getattr(message, "refusal", None),
        }
    )


def words_of(said: Said) -> Said:
    """Return the content of a response as the next call repeats it in an assistant message."""
    return {name: item for name, item in said.items() if name not in _ABOUT}


def _filled(value: Said) -> Said:
    return {name: item for name, item in value.items() if item not in (None, "", [], {})}


def without_messages(said: Any) -> Any:
    """Return the comparable content of a model call without its conversation."""
    request = said.get("request") if isinstance(said, dict) else None
    body = request.get("body") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(body, dict):
        return said
    rest = {name: item for name, item in body.items() if name not in _MESSAGES}
    return {**said, "request": {**request, "body": rest}}


def message_pairs(
    mine: list[Said], theirs: list[Said]
) -> Iterator[tuple[Said | None, Said | None]]:
    """Pair equal messages, and between them messages of the same role."""
    return pair_up(mine, theirs, key_of, _role)


def _role(said: Said) -> str:
    return str(said["role"])
