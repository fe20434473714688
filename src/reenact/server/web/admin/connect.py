"""Instructions for connecting an app."""

from __future__ import annotations

import json
from typing import Final

from reenact.server.context import RequestContext
from reenact.server.people.accounts import address_here
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.values import copyable

__all__ = ["connect_instructions", "key_instructions"]

_SOMEWHERE: Final = "https://reenact.example"
"""Placeholder for the address of a server that was not requested by name."""
_LINES: Final = """\
import os
from reenact.exchange import Agent

agent = Agent({server}, key=os.environ["REENACT_AGENT_KEY"], app={app}, environment={environment})
app.add_middleware(agent.asgi)  # Flask: app.wsgi_app = agent.wsgi(app.wsgi_app)
"""


def connect_instructions(context: RequestContext) -> Html:
    """Return the instructions from an empty project to the first exchange."""
    return tag(
        "section",
        tag("h2", "Connect an app"),
        tag(
            "ol",
            tag("li", _key(context)),
            tag("li", *_install()),
            tag("li", "Tell the app, as it starts:", copyable(_lines(context, "shop", "staging"))),
            tag(
                "li", "Send it a request. What came in is in the history then, and can be replayed."
            ),
            class_="steps",
        ),
        tag(
            "p",
            "Or look around first: ",
            tag("code", "reenact serve --demo"),
            " starts a server with a small shop in it.",
            class_="dim",
        ),
        class_="connecting",
    )


def _key(context: RequestContext) -> Child:
    if context.has_anywhere("tenant:admin"):
        return fragment(link("/keys", "Make a key for its agent"), ".")
    return "Ask an administrator of this tenant for the key of an agent."


def _install() -> tuple[Child, ...]:
    return ("Install what it needs:", copyable("pip install 'reenact[agent]'"))


def _lines(context: RequestContext, app: str, environment: str) -> str:
    server = address_here(context) or _SOMEWHERE
    return _LINES.format(
        server=json.dumps(server), app=json.dumps(app), environment=json.dumps(environment)
    )


def key_instructions(context: RequestContext, app: str, environment: str, *, listed: bool) -> Html:
    """Return instructions for a new app agent key.

    ``listed`` means that the kind of ``environment`` is configured.
    """
    kinds = fragment(
        tag("b", environment),
        " counts as production until ",
        link(url("/environments", name=environment), "it is said what it is"),
        ".",
    )
    return fragment(
        tag("p", "The app gets it as REENACT_AGENT_KEY, and is told where this server is:"),
        copyable(_lines(context, app, environment)),
        None if listed else tag("p", kinds),
    )
