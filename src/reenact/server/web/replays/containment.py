"""Containment of a replay as HTML: effects and refused operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reenact.exchange.containment import effective_containment
from reenact.exchange.model import Boundaries, Containment, DriverUse
from reenact.server.web.components.formatting import badge
from reenact.server.web.components.html import Html, fragment, tag

__all__ = ["CALLS", "contained", "drivers_of", "files_of"]

CALLS: Final[dict[Boundaries, str]] = {
    "recorded": "A recorded call gets its recorded response. A call whose request has changed gets it "
    "as well, and is reported. A call without a counterpart in the recording is refused.",
    "recorded_then_live": "A recorded call gets its recorded response. Every other call is made for "
    "real.",
    "live": "Every outbound call is made for real, and has the same effects as the first time.",
}
_LIVE: Final = "A live replay refuses nothing: drivers and files work as in any request."
_MEMORY: Final = (
    "The memory of the app changes as in any request: module variables, caches, counters."
)
_LIMITS: Final = (
    "Not contained: files that the app had open before the replay, log files of logging handlers, "
    "other processes, threads outside the replay that get work from it without a queue, and files and "
    "connections that C libraries open themselves."
)
_TREATED: Final = {
    "allow": ("executed", "bad", "statements are executed for real"),
    "refuse": ("refused", "good", "each statement is refused"),
    "undeclared": ("undeclared", "warn", "the app has not declared how a replay treats it"),
}


def contained(containment: Containment | None, boundaries: Boundaries) -> Html:
    """Render the effects of a replay besides its outbound calls. ``containment`` is None if no app
    agent is online."""
    lines: list[Html] = []
    if boundaries == "live":
        lines.append(tag("p", _LIVE))
    elif containment is not None:
        lines.append(_drivers(effective_containment(containment, boundaries)))
        lines.append(tag("p", "Files: ", _files(containment)))
    lines.append(tag("p", _MEMORY))
    if boundaries != "live":
        lines.append(tag("p", _LIMITS, class_="dim"))
    return fragment(tag("h3", "Drivers, files and memory"), *lines)


def _drivers(containment: Containment) -> Html:
    if not containment.drivers:
        return tag("p", "The app has loaded no drivers that Reenact cannot record.")
    return fragment(
        tag("p", "Loaded drivers that Reenact cannot record:"),
        tag("ul", *(tag("li", *_driver(one)) for one in containment.drivers), class_="plain"),
    )


def _driver(one: DriverUse) -> Iterator[Html | str]:
    word, tone, said = _TREATED[one.treatment]
    yield badge(word, tone=tone)
    yield " "
    yield tag("b", one.name)
    yield f": {said}"


def _files(containment: Containment) -> str:
    if containment.files == "allow":
        return "they are written, renamed and deleted for real."
    refused = "writing, renaming and deleting is refused"
    if not containment.scratch:
        return f"{refused}, except for temporary files."
    return f"{refused}, except for temporary files and in {', '.join(containment.scratch)}."


def drivers_of(containment: Containment) -> Html:
    """Show the loaded drivers in a line."""
    if not containment.drivers:
        return tag("span", "none", class_="dim")
    items: list[Html | str] = []
    for one in containment.drivers:
        word, tone, said = _TREATED[one.treatment]
        items += [badge(f"{one.name} {word}", tone=tone, title=said), " "]
    return tag("span", *items, class_="notes")


def files_of(containment: Containment) -> str:
    """Describe the treatment of files in a line."""
    if containment.files == "allow":
        return "written for real"
    places = ", ".join(("temporary files", *containment.scratch))
    return f"writes refused, except: {places}"
