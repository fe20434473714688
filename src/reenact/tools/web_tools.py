"""Web tools: ``reenact.tools.web_fetch`` returns the readable text of a page, and
``reenact.tools.web_search`` searches the web with an interface and a registry for providers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from reenact._system import monotonic, start_clock
from reenact.engine.session.current import current
from reenact.errors import UsageError, WebFailed, did_you_mean
from reenact.format.event import Data
from reenact.policy.redaction.placeholder import PLACEHOLDER
from reenact.tools.page_text import Mode, Page, read_page, wrap
from reenact.tools.safe_http import LIMITS, Answer, Limits, send
from reenact.tools.tool import Tool, tool

__all__ = [
    "Brave",
    "Perplexity",
    "Provider",
    "Query",
    "add_provider",
    "providers",
    "web_fetch",
    "web_fetcher",
    "web_search",
    "web_searcher",
]


MOST_CHARS: Final = 50_000
LEAST_CHARS: Final = 100
_DETAIL: Final = 4_000
"""Maximum number of characters of a page or response in a failure, or of a title."""

_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/json;q=0.8, */*;q=0.1"
_JSON: Final = ("application/json", "+json")


def web_fetcher(limits: Limits = LIMITS, *, max_chars: int = MOST_CHARS) -> Tool[..., Data]:
    """Return a ``web_fetch`` tool with different limits.

    ``max_chars`` is the maximum and the default of a call.
    """

    @tool(name="web_fetch", volatile=("fetchedAt", "tookMs"))
    def web_fetch(
        url: Annotated[str, "the address of the page, http or https"],
        extractMode: Annotated[
            Literal["markdown", "text"], "the format of the result"
        ] = "markdown",
        maxChars: Annotated[
            int | None, "the maximum number of characters to return, at least 100"
        ] = None,
    ) -> Data:
        """Fetch a page and return its content as Markdown or text.

        The text is marked as untrusted external content. Private addresses are refused.
        """
        began = monotonic()
        answer = send("GET", url, headers={"Accept": _ACCEPT}, limits=limits)
        _check_status(answer)
        most = min(max(LEAST_CHARS, maxChars or max_chars), max_chars)
        found = _told(answer, extractMode, most)
        took = int((monotonic() - began) * 1e3)
        return {"url": url, **found, "fetchedAt": _now(), "tookMs": took}

    return web_fetch


def _told(answer: Answer, mode: Mode, most: int) -> Data:
    extractor, page = _extracted(answer, mode)
    text = page.text[:most]
    wrapped = wrap(text, "web page")
    found: Data = {
        "finalUrl": answer.url,
        "status": answer.status,
        "contentType": answer.content_type or "application/octet-stream",
        "extractMode": mode,
        "extractor": extractor,
        "externalContent": {"untrusted": True, "source": "web_fetch", "wrapped": True},
        "truncated": answer.truncated or len(page.text) > most,
        "length": len(text),
        "rawLength": len(answer.body),
        "wrappedLength": len(wrapped),
        "text": wrapped,
    }
    if page.title:
        found["title"] = page.title[:_DETAIL]
    if answer.truncated:
        found["warning"] = f"the page is longer than {len(answer.body):,} bytes and was cut there"
    return found


def _extracted(answer: Answer, mode: Mode) -> tuple[str, Page]:
    kind = answer.content_type
    if kind in ("text/html", "application/xhtml+xml"):
        return "html", read_page(answer.text(), mode, base=answer.url)
    if kind.endswith(_JSON):
        return "json", Page("", _indented(answer.text()))
    if kind == "text/markdown":
        return "cf-markdown", Page("", answer.text())
    return "raw", Page("", answer.text())


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _check_status(answer: Answer) -> None:
    if 200 <= answer.status < 300:
        return
    _, page = _extracted(answer, "text")
    detail = wrap(page.text[:_DETAIL], "web page")
    raise WebFailed(
        f"the page answers {answer.status}\n{detail}",
        hint="check the address",
        details={"url": answer.url, "status": answer.status},
    )


def _now() -> str:
    return datetime.fromtimestamp(start_clock()() / 1e3, UTC).isoformat(timespec="milliseconds")


web_fetch = web_fetcher()
web_fetch.__qualname__ = "web_fetch"  # it can be found under this name, by pickle for one


_TRUSTED = Limits(private_addresses=True)
"""Limits for the address of a provider, which the user configures and no model can change."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Search request. Empty fields are not set."""

    query: str
    count: int = 5
    country: str = ""
    search_lang: str = ""
    ui_lang: str = ""
    freshness: str = ""


class Provider(Protocol):
    """Search provider. Its API key is in the environment variable ``key_name``."""

    name: str
    key_name: str
    docs: str

    def search(self, query: Query, key: str) -> Data:
        """Return the results as plain data: ``count`` and ``results``, or ``content`` and
        ``citations``.

        Texts from outside are wrapped. Raises :class:`WebFailed`.
        """


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
    """Return all providers in the order in which they are tried."""
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
            hint="check the key and its permissions",
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


MOST: Final = 10
_CHOICE: Final = "env web_search provider"


def web_searcher(
    provider: Provider | str | None = None, *, key: str | None = None
) -> Tool[..., Data]:
    """Return a tool ``web_search`` for ``provider``, or for the first registered one that has a
    key.

    ``key`` is the provider's key; the default is the value of its environment variable.
    """
    fixed = _named(provider) if isinstance(provider, str) else provider

    @tool(name="web_search", volatile=("tookMs",))
    def web_search(
        query: Annotated[str, "what to search for"],
        count: Annotated[int, "how many results, 1 to 10"] = 5,
        country: Annotated[str, "two letters, such as US"] = "",
        search_lang: Annotated[str, "the language of the results, such as de"] = "",
        ui_lang: Annotated[str, "the language of the user interface, such as de-DE"] = "",
        freshness: Annotated[
            str, "the maximum age of results, in the notation of the provider"
        ] = "",
    ) -> Data:
        """Search the web. The results are marked as untrusted external content."""
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
    """Return the provider and its key.

    The available keys are a fact about the machine. A replay that re-executes the tool uses the
    provider of the recorded run and needs no key.
    """
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
