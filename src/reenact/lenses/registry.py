"""Table of the lenses, and the endpoints of model APIs: host, path and provider of a request.

This module is small, so that only programs that call a model load the lenses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from reenact import _plugins
from reenact.errors import PluginBroken

if TYPE_CHECKING:
    from reenact.lenses.content import Content
    from reenact.lenses.model import Answered, Asked, Message

__all__ = [
    "PROVIDERS",
    "TABLE",
    "InstalledLenses",
    "Lens",
    "Place",
    "Row",
    "installed_lenses",
    "lens_named",
    "lens_of",
    "may_ask",
    "place_of",
]


class Lens(msgspec.Struct, frozen=True, kw_only=True):
    """API of a provider. ``paths`` are the endings of the paths of its model calls.

    ``asked`` reads a request and can return None. ``messages`` reads the input that ``asked``
    found. ``answered`` reads the body of a reply. They accept any JSON and never raise.
    """

    name: str
    title: str
    paths: tuple[str, ...]
    asked: Callable[[Place, dict[str, Any]], Asked | None]
    messages: Callable[[dict[str, Any]], tuple[Message, ...]]
    answered: Callable[[Content], Answered]


class Row(NamedTuple):
    """Lens of Reenact. ``module`` is the module in this package with its three functions."""

    name: str
    title: str
    module: str
    paths: tuple[str, ...]


_ANTHROPIC = "/messages :rawPredict :streamRawPredict /invoke /invoke-with-response-stream"

TABLE = (
    Row("openai.chat", "OpenAI Chat Completions", "openai_chat", ("/chat/completions",)),
    Row("openai.responses", "OpenAI Responses", "openai_responses", ("/responses",)),
    Row("anthropic.messages", "Anthropic Messages", "anthropic", tuple(_ANTHROPIC.split())),
    Row(
        "google.generate",
        "Google Gemini",
        "google",
        (":generateContent", ":streamGenerateContent"),
    ),
    Row(
        "bedrock.converse",
        "Amazon Bedrock Converse",
        "bedrock",
        ("/converse", "/converse-stream"),
    ),
    Row("ollama.chat", "Ollama", "ollama", ("/api/chat",)),
)
"""Lenses of Reenact."""


class InstalledLenses(NamedTuple):
    """Lenses of other installed packages, and the errors of unusable ones."""

    lenses: tuple[Lens, ...]
    broken: tuple[PluginBroken, ...]
    endings: tuple[str, ...]
    """Path endings of all lenses, including Reenact's own."""


_installed: InstalledLenses | None = None


def installed_lenses(*, again: bool = False) -> InstalledLenses:
    """Return the lenses of other packages, which are loaded once per process.

    With ``again`` they are loaded again if the installed packages have changed.
    """
    global _installed
    if _installed is None or again:
        _installed = _load_all(tuple(_plugins.entry_points(_plugins.LENSES)))
    return _installed


@lru_cache(maxsize=1)
def _load_all(points: tuple[_plugins.EntryPoint, ...]) -> InstalledLenses:
    lenses: dict[str, Lens] = {}
    broken: list[PluginBroken] = []
    for point in points:
        try:
            lenses[point.name] = _load(point, {row.name for row in TABLE} | set(lenses))
        except Exception as error:  # noqa: BLE001 - a foreign module can raise anything
            broken.append(point.broken(error))
    rows: list[Row | Lens] = [*TABLE, *lenses.values()]
    endings = tuple(ending for row in rows for ending in row.paths)
    return InstalledLenses(tuple(lenses.values()), tuple(broken), endings)


def _load(point: _plugins.EntryPoint, taken: set[str]) -> Lens:
    lens = point.load()
    if not isinstance(lens, Lens):
        raise TypeError(f"{point.value} is a {type(lens).__name__}, expected a Lens")
    if lens.name != point.name:
        raise ValueError(f"the lens is named {lens.name}, expected the name of its entry point")
    if lens.name in taken:
        raise ValueError("a different lens has this name")
    if not lens.paths or "" in lens.paths:
        raise ValueError("the lens has no path endings")
    return lens


@lru_cache(maxsize=len(TABLE))
def _built_in(row: Row) -> Lens:
    module = import_module(f"reenact.lenses.{row.module}")
    return Lens(
        name=row.name,
        title=row.title,
        paths=row.paths,
        asked=module.asked,
        messages=module.messages,
        answered=module.answered,
    )


def lens_named(name: str) -> Lens | None:
    """Return the lens with this name."""
    row = next((row for row in TABLE if row.name == name), None)
    if row is not None:
        return _built_in(row)
    return next((lens for lens in installed_lenses().lenses if lens.name == name), None)


def lens_of(path: str) -> Lens | None:
    """Return the lens with the longest matching ending. Of two equal ones, Reenact's own wins."""
    rows: list[Row | Lens] = [*TABLE, *installed_lenses().lenses]
    matching = [(len(ending), row) for row in rows for ending in row.paths if path.endswith(ending)]
    if not matching:
        return None
    found = max(matching, key=itemgetter(0))[1]
    return _built_in(found) if isinstance(found, Row) else found


def may_ask(method: str, url: str) -> bool:
    """Return whether a request can be a model call.

    It is fast, because every HTTP request is checked.
    """
    if method != "POST":
        return False
    endings = (_installed or installed_lenses()).endings
    end = url.find("?")
    return url.endswith(endings) if end < 0 else url.endswith(endings, 0, end)


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
