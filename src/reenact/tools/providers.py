"""Who can search the web: an interface, a registry, and two that are ready."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from reenact.errors import UsageError, WebFailed
from reenact.format.event import Data
from reenact.tools.envelope import wrap
from reenact.tools.reach import Limits
from reenact.tools.web import Answer, send

__all__ = ["Brave", "Perplexity", "Provider", "Query", "add_provider", "providers"]

_DETAIL: Final = 4_000
_TRUSTED = Limits(private_addresses=True)
"""Where a provider is was said by whoever runs the program, and by no model."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for. Empty fields were not said."""

    query: str
    count: int = 5
    country: str = ""
    search_lang: str = ""
    ui_lang: str = ""
    freshness: str = ""


class Provider(Protocol):
    """One that searches. It is asked with a key that stands in the variable ``key_name``."""

    name: str
    key_name: str
    docs: str

    def search(self, query: Query, key: str) -> Data:
        """What was found, as plain data: ``count`` and ``results``, or ``content`` and
        ``citations``. Texts from outside are wrapped. Raises :class:`WebFailed`."""


_providers: dict[str, Provider] = {}


def add_provider(provider: Provider) -> None:
    """Make a provider known. One of the same name is replaced, at the same place."""
    if not provider.name.isidentifier():
        raise UsageError(
            f"{provider.name[:64]!r} cannot be the name of a provider",
            hint="letters, digits and '_'",
        )
    _providers[provider.name] = provider


def providers() -> Mapping[str, Provider]:
    """All that are known, in the order in which they are tried."""
    return dict(_providers)


class Brave:
    """Brave's search, and what has the same API: a list of results."""

    name = "brave"
    key_name = "BRAVE_API_KEY"
    docs = "https://brave.com/search/api/"

    def __init__(self, base_url: str = "https://api.search.brave.com") -> None:
        self._base = base_url.rstrip("/")

    def search(self, query: Query, key: str) -> Data:
        asked = {"q": query.query, "count": query.count}
        more = msgspec.structs.asdict(query)
        names = ("country", "search_lang", "ui_lang", "freshness")
        asked |= {name: more[name] for name in names if more[name]}
        answer = send(
            "GET",
            f"{self._base}/res/v1/web/search?{urlencode(asked)}",
            headers={"Accept": "application/json", "X-Subscription-Token": key},
            limits=_TRUSTED,
        )
        web = _json(answer).get("web")
        found = web.get("results") if isinstance(web, dict) else None
        items = [one for one in found or [] if isinstance(one, dict)][: query.count]
        return {"count": len(items), "results": list(map(_result, items))}


def _result(item: Data) -> Data:
    url = _text(item.get("url"))
    found = {
        "title": wrap(_text(item.get("title")), "web search"),
        "url": url,
        "description": wrap(_text(item.get("description")), "web search"),
        "published": _text(item.get("age")),
        "siteName": urlsplit(url).hostname or "",
    }
    return {name: one for name, one in found.items() if one}


class Perplexity:
    """A model that searches, behind the API of chat completions: a text with citations."""

    name = "perplexity"
    key_name = "PERPLEXITY_API_KEY"
    docs = "https://docs.perplexity.ai/"

    def __init__(
        self, base_url: str = "https://api.perplexity.ai", *, model: str = "sonar-pro"
    ) -> None:
        self._base = base_url.rstrip("/")
        self._model = model

    def search(self, query: Query, key: str) -> Data:
        asked: Data = {
            "model": self._model,
            "messages": [{"role": "user", "content": query.query}],
        }
        if query.freshness:
            asked["search_recency_filter"] = query.freshness
        answer = send(
            "POST",
            f"{self._base}/chat/completions",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
            body=json.dumps(asked).encode(),
            limits=_TRUSTED,
        )
        told = _json(answer)
        citations = told.get("citations")
        return {
            "model": _text(told.get("model")) or self._model,
            "content": wrap(_content(told), "web search"),
            "citations": [one for one in citations or [] if isinstance(one, str)],
        }


def _content(told: Data) -> str:
    try:
        return _text(told["choices"][0]["message"]["content"])
    except (KeyError, IndexError, TypeError):
        return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(answer: Answer) -> Data:
    if not 200 <= answer.status < 300:
        detail = wrap(answer.text()[:_DETAIL], "web search")
        raise WebFailed(
            f"the search answers {answer.status}\n{detail}",
            hint="look whether the key is right, and what it allows",
            details={"url": answer.url.partition("?")[0], "status": answer.status},
        )
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise WebFailed("the search gives no JSON object", details={"status": answer.status})
    return found


add_provider(Brave())
add_provider(Perplexity())
