"""``reenact.tools.web_fetch``: a tool that returns the readable text of a page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from reenact._system import monotonic, start_clock
from reenact.errors import WebFailed
from reenact.format.event import Data
from reenact.tools.page_text import Mode, Page, read_page, wrap
from reenact.tools.safe_http import LIMITS, Answer, Limits, send
from reenact.tools.tool import Tool, tool

__all__ = ["web_fetch", "web_fetcher"]

MOST: Final = 50_000
LEAST: Final = 100
_DETAIL: Final = 4_000
"""Characters of the page that are included in a failure."""

_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/json;q=0.8, */*;q=0.1"
_JSON: Final = ("application/json", "+json")


def web_fetcher(limits: Limits = LIMITS, *, max_chars: int = MOST) -> Tool[..., Data]:
    """Return a ``web_fetch`` tool with different limits.

    ``max_chars`` is the maximum and the default of a call.
    """

    @tool(name="web_fetch", volatile=("fetchedAt", "tookMs"))
    def web_fetch(
        url: Annotated[str, "the address of the page, http or https"],
        extractMode: Annotated[Literal["markdown", "text"], "how the page is written"] = "markdown",
        maxChars: Annotated[int | None, "the most characters that are given, at least 100"] = None,
    ) -> Data:
        """Fetch a page and give what it says as Markdown or text.

        The text comes from outside and is marked so. Private addresses are refused.
        """
        began = monotonic()
        answer = send("GET", url, headers={"Accept": _ACCEPT}, limits=limits)
        _check_status(answer)
        most = min(max(LEAST, maxChars or max_chars), max_chars)
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
        hint="look whether the address is right",
        details={"url": answer.url, "status": answer.status},
    )


def _now() -> str:
    return datetime.fromtimestamp(start_clock()() / 1e3, UTC).isoformat(timespec="milliseconds")


web_fetch = web_fetcher()
web_fetch.__qualname__ = "web_fetch"  # it can be found under this name, by pickle for one
