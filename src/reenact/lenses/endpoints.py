"""Endpoints of model APIs: host, path and provider of a request.

This module is small, so that only programs that call a model load the lenses.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

__all__ = [
    "PATHS",
    "PROVIDERS",
    "Place",
    "may_ask",
    "place_of",
]

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
    """Return whether a request can be a model call.

    It is fast, because every HTTP request is checked.
    """
    if method != "POST":
        return False
    end = url.find("?")
    return url.endswith(_ENDINGS) if end < 0 else url.endswith(_ENDINGS, 0, end)


class Place(NamedTuple):
    """``host`` is in lower case, ``port`` as text and empty where the URL has none, ``path`` is
    without the query."""

    host: str
    port: str
    path: str

    def provider(self, usual: str) -> str:
        """Return the provider of the host, or ``usual`` for an unknown host."""
        for ending, name in PROVIDERS:
            if self.host == ending or self.host.endswith(f".{ending}"):
                return name
        return _PORTS.get(self.port, usual)

    def part(self, after: str, before: str) -> str:
        """Return the part of the path between the last ``after`` and the last ``before`` that
        follows it."""
        _, found, rest = self.path.rpartition(after)
        return unquote(rest.rpartition(before)[0]) if found else ""


def place_of(url: str) -> Place:
    """Split a URL. Never raises: an invalid URL is split in the same way."""
    _, _, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    authority, slash, path = rest.partition("/")
    server = authority.rpartition("@")[2].lower()
    host, _, port = server.rpartition(":")
    if not host or "]" in port:
        host, port = server, ""
    return Place(host, port, slash + path)


_PORTS = {"11434": "ollama"}

PROVIDERS = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("models.ai.azure.com", "azure"),
    ("api.anthropic.com", "anthropic"),
    ("googleapis.com", "google"),
    ("amazonaws.com", "bedrock"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral"),
    ("openrouter.ai", "openrouter"),
    ("together.xyz", "together"),
    ("together.ai", "together"),
    ("deepseek.com", "deepseek"),
    ("fireworks.ai", "fireworks"),
    ("x.ai", "xai"),
    ("perplexity.ai", "perplexity"),
    ("cerebras.ai", "cerebras"),
    ("cohere.com", "cohere"),
    ("cohere.ai", "cohere"),
    ("huggingface.co", "huggingface"),
    ("api.nvidia.com", "nvidia"),
    ("deepinfra.com", "deepinfra"),
    ("sambanova.ai", "sambanova"),
    ("moonshot.ai", "moonshot"),
    ("moonshot.cn", "moonshot"),
    ("aliyuncs.com", "alibaba"),
    ("z.ai", "zai"),
    ("bigmodel.cn", "zai"),
    ("models.github.ai", "github"),
    ("githubcopilot.com", "github"),
    ("ollama.com", "ollama"),
)
"""Providers by the end of the host name."""
