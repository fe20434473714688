"""Where model calls go. Apart from the lenses, so that only programs that ask a model load those."""

from __future__ import annotations

__all__ = ["PATHS", "may_ask"]

PATHS = {
    "openai.chat": ("/chat/completions",),
    "openai.responses": ("/responses",),
    "anthropic.messages": (
        "/messages",
        ":rawPredict",
        ":streamRawPredict",
        "/invoke",
        "/invoke-with-response-stream",
    ),
    "google.generate": (":generateContent", ":streamGenerateContent"),
    "bedrock.converse": ("/converse", "/converse-stream"),
    "ollama.chat": ("/api/chat",),
}
"""For each lens, what the paths of its model calls end with."""

_ENDINGS = tuple(ending for endings in PATHS.values() for ending in endings)


def may_ask(method: str, url: str) -> bool:
    """May this be a model call? Takes next to nothing: it is asked of every HTTP request."""
    if method != "POST":
        return False
    end = url.find("?")
    return url.endswith(_ENDINGS) if end < 0 else url.endswith(_ENDINGS, 0, end)
