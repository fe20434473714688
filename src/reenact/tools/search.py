"""``reenact.tools.web_search``: what the web has about something."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from reenact._system import monotonic
from reenact.engine.session.context import current
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.policy.nearest import did_you_mean
from reenact.policy.placeholder import PLACEHOLDER
from reenact.tools.providers import Provider, Query, providers
from reenact.tools.wrapping import Tool, tool

__all__ = ["web_search", "web_searcher"]

MOST: Final = 10
_CHOICE: Final = "env web_search provider"


def web_searcher(
    provider: Provider | str | None = None, *, key: str | None = None
) -> Tool[..., Data]:
    """A tool ``web_search`` that asks ``provider``; else the first known one that has a key.

    ``key`` is the provider's; else the value of its environment variable.
    """
    fixed = _named(provider) if isinstance(provider, str) else provider

    @tool(name="web_search", volatile=("tookMs",))
    def web_search(
        query: Annotated[str, "what to search for"],
        count: Annotated[int, "how many results, 1 to 10"] = 5,
        country: Annotated[str, "two letters, such as US"] = "",
        search_lang: Annotated[str, "the language of the results, such as de"] = "",
        ui_lang: Annotated[str, "the language of what is around them"] = "",
        freshness: Annotated[str, "how new they must be, as the provider says it"] = "",
    ) -> Data:
        """Search the web. The results come from outside and are marked so."""
        began = monotonic()
        chosen, secret = _chosen(fixed, key)
        if chosen is None:
            return _no_key(fixed)
        asked = Query(
            query=query,
            count=min(max(1, count), MOST),
            country=country,
            search_lang=search_lang,
            ui_lang=ui_lang,
            freshness=freshness,
        )
        found = chosen.search(asked, secret)
        return {
            "query": query,
            "provider": chosen.name,
            "externalContent": {
                "untrusted": True,
                "source": "web_search",
                "provider": chosen.name,
                "wrapped": True,
            },
            **found,
            "tookMs": int((monotonic() - began) * 1e3),
        }

    return web_search


def _named(name: str) -> Provider:
    known = providers()
    if name not in known:
        raise UsageError(f"no provider is called {name[:64]!r}", hint=did_you_mean(name, known))
    return known[name]


def _chosen(fixed: Provider | None, key: str | None) -> tuple[Provider | None, str]:
    """Who is asked, and with which key. Which keys there are is a fact of the machine: a replay
    that runs the tool again asks whom the recorded run asked, and needs no key."""
    known = providers() if fixed is None else {fixed.name: fixed}
    session = current()
    if session is None:
        name = _with_key(known, key)
    else:
        name = session.draws.draw(_CHOICE, lambda: _with_key(known, key))
    if name is None or name not in known:
        return None, ""
    chosen = known[name]
    return chosen, key or os.environ.get(chosen.key_name) or PLACEHOLDER


def _with_key(known: Mapping[str, Provider], key: str | None) -> str | None:
    return next((one.name for one in known.values() if key or os.environ.get(one.key_name)), None)


def _no_key(fixed: Provider | None) -> Data:
    known = list(providers().values()) if fixed is None else [fixed]
    names = " or ".join(one.key_name for one in known)
    code: Literal["missing_api_key"] = "missing_api_key"
    return {
        "error": code,
        "message": f"web_search needs a key of a search provider: set {names}.",
        "docs": known[0].docs,
    }


web_search = web_searcher()
web_search.__qualname__ = "web_search"  # it can be found under this name, by pickle for one
