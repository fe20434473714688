"""A replay that came to no end of its own (pure): why, and what to do about it."""

from __future__ import annotations

from typing import Final, Literal

from reenact.server.exchanges.shapes import ReplayView
from reenact.server.pages.markup import Html, link, tag, url

__all__ = ["WAYS_OUT", "ending"]

Way = Literal["form", "agents", "original", ""]

WAYS_OUT: Final[dict[str, tuple[str, Way]]] = {
    "signature_invalid": ("The agent has registered with another server: restart the app.", ""),
    "expired": ("Compare the clocks of server and app, and ask for it again.", "form"),
    "nonce_reused": ("Ask for it again.", "form"),
    "wrong_agent": ("Look at which agents there are.", "agents"),
    "not_replayable": ("Give what is missing in the form, or credentials to the agent.", "form"),
    "drivers_undeclared": (
        "Declare the drivers in the app and replay the exchange again.",
        "agents",
    ),
    "no_recording": ("Let its calls go out: recorded then live, or live.", "form"),
    "revision_mismatch": ("Replay it through the route as it is now.", "form"),
    "route_unknown": ("The app has no such route any more: choose another agent.", "form"),
    "busy": ("Wait until its other replays have ended.", "agents"),
    "depth": ("Replay the original instead.", "original"),
    "agent_restarted": ("Ask for it again: what was begun is not begun anew by itself.", "form"),
    "source_unavailable": ("The agent could not get the recording: does it reach this server?", ""),
    "internal": ("Look at the log of the app.", ""),
    "not_delivered": ("Is the app running? Look at its agents.", "agents"),
    "not_started": ("The app took it and did not begin: look at its log.", ""),
    "not_finished": ("The app did not end in time: look at its log.", ""),
}
"""By the code of a replay: what to do, and where that is done."""

_WORDS: Final[dict[Way, str]] = {
    "form": "To the form",
    "agents": "To the agents",
    "original": "To the original",
}


def ending(found: ReplayView) -> Html | None:
    """None for a replay that has ended as it should, or not yet."""
    if not found.code and not found.message:
        return None
    words, way = WAYS_OUT.get(found.code, ("", ""))
    code = tag("code", found.code, class_="dim") if found.code else None
    return tag(
        "div",
        tag("p", tag("strong", found.message or found.code.replace("_", " ")), " ", code),
        tag("p", words) if words else None,
        tag("p", link(_place(found, way), _WORDS[way]), class_="ways") if way else None,
        class_="alert",
    )


def _place(found: ReplayView, way: Way) -> str:
    there = {
        "form": "/exchanges/{}/replay",
        "original": "/exchanges/{}",
    }
    if way in there:
        return url(there[way], found.source_exchange_id)
    return url("/agents", app=found.app)
