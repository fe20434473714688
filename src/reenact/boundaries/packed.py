"""What of an encoded body may be written, and how it is served again.

Encoded, a secret would be out of sight of the redaction. So such a body is looked at decoded, and
one that cannot be looked at to its end is a secret as a whole: it is written sealed, or not at all.
"""

from __future__ import annotations

from typing import Any

from reenact.boundaries.coding import MOST, Headers, coding_of, encode, look
from reenact.boundaries.growth import as_text
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.policy.redaction.placeholder import is_mark

__all__ = ["HIDDEN", "hide", "kept_body", "served_body"]

HIDDEN = "bodySecret"
"""A body under this name is redacted because of the name."""

_TOO_LONG = f"it cannot be decoded here, or has more than {MOST >> 20} MiB of text"
_BROKEN = "there is a secret in it, and the rest cannot be decoded"


def kept_body(session: Session, body: bytes, coding: str | None) -> Data:
    """The fields of a response in which ``body``, so encoded, is kept.

    ``body`` as it came; with ``decoded`` the text of it, which has a secret; or all of it under
    ``bodySecret``, with the reason under ``unread``.
    """
    if coding is None or session.keeps_secrets:
        return {"body": as_text(body)}
    seen = look(body, coding)
    if seen is not None and seen.end == "hidden":
        return _hidden(session, body, _TOO_LONG)
    if seen is None or not session.redacts(seen.text):
        return {"body": as_text(body)}
    if seen.end == "broken":
        return _hidden(session, body, _BROKEN)
    return {"body": as_text(seen.text), "decoded": coding}


def _hidden(session: Session, body: bytes, why: str) -> Data:
    session.warn_once(
        f"the encoded body of an answer is kept as a secret, because {why}: a replay needs the key "
        "that it is sealed with (ask for the answer without a content coding, or record with the "
        "redaction profile none)"
    )
    return {HIDDEN: body, "unread": why}


def hide(session: Session, response: Data, why: str) -> Data:
    """``response`` with all of its body as a secret."""
    session.warn_once(
        f"the body of an answer is kept as a secret, because {why}: a replay needs the key that it "
        "is sealed with (or record with the redaction profile none)"
    )
    rest = {name: item for name, item in response.items() if name != "body"}
    return {**rest, HIDDEN: _bytes(response["body"]), "unread": why}


def served_body(response: Data, headers: Headers) -> bytes | None:
    """The body that a replay serves; None when there was none.

    What was redacted is encoded as ``headers`` say, so that a client can read it.
    """
    if HIDDEN not in response:
        body = response.get("body")
        decoded = response.get("decoded")
        return None if body is None else _encoded(_bytes(body), decoded)
    hidden = _bytes(response[HIDDEN])
    if not is_mark(hidden.decode("latin-1")):
        return hidden
    return _encoded(hidden, coding_of(headers))


def _encoded(body: bytes, coding: str | None) -> bytes:
    try:
        return encode(body, coding) if coding else body
    except (ImportError, KeyError):  # nothing here can do it, and so nothing undoes it
        return body


def _bytes(body: Any) -> bytes:
    return body.encode("utf-8") if isinstance(body, str) else body
