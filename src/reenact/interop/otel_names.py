"""The names of attributes that we read and write, in one versioned table (pure).

The conventions for models left the main repository with version 1.42 and are still being renamed:
what comes in may use names from before or after, what goes out uses those of :data:`SCHEMA_URL`.
When they settle, this is the file to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["NAMES", "PROVIDERS", "SCHEMA_URL", "SCHEMA_VERSION", "to_current"]

SCHEMA_VERSION: Final = "1.41.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SCHEMA_VERSION}"

NAMES: Final[dict[str, tuple[str, ...]]] = {
    # Models
    "gen_ai.operation.name": (),
    "gen_ai.provider.name": ("gen_ai.system",),
    "gen_ai.request.model": (),
    "gen_ai.request.max_tokens": (),
    "gen_ai.request.temperature": (),
    "gen_ai.request.top_p": (),
    "gen_ai.request.top_k": (),
    "gen_ai.request.seed": ("gen_ai.openai.request.seed",),
    "gen_ai.request.choice.count": (),
    "gen_ai.request.stop_sequences": (),
    "gen_ai.request.stream": (),
    "gen_ai.response.id": (),
    "gen_ai.response.model": (),
    "gen_ai.response.finish_reasons": (),
    "gen_ai.output.type": ("gen_ai.openai.request.response_format",),
    "gen_ai.usage.input_tokens": ("gen_ai.usage.prompt_tokens",),
    "gen_ai.usage.output_tokens": ("gen_ai.usage.completion_tokens",),
    "gen_ai.usage.cache_read.input_tokens": (),
    "gen_ai.usage.cache_creation.input_tokens": ("gen_ai.usage.cache_write.input_tokens",),
    "gen_ai.usage.reasoning.output_tokens": (),
    "gen_ai.conversation.id": (),
    "gen_ai.agent.name": (),
    "gen_ai.tool.name": (),
    "gen_ai.tool.call.id": (),
    "gen_ai.tool.call.arguments": (),
    "gen_ai.tool.call.result": (),
    "gen_ai.input.messages": ("gen_ai.prompt",),
    "gen_ai.output.messages": ("gen_ai.completion",),
    # HTTP
    "http.request.method": ("http.method",),
    "http.response.status_code": ("http.status_code",),
    "http.route": (),
    "url.full": ("http.url",),
    "url.scheme": ("http.scheme",),
    "url.path": (),
    "url.query": (),
    "server.address": ("net.peer.name", "net.host.name", "http.host"),
    "server.port": ("net.peer.port", "net.host.port"),
    "client.address": ("http.client_ip",),
    "user_agent.original": ("http.user_agent",),
    # Resources
    "deployment.environment.name": ("deployment.environment",),
}
"""Each name that we use, with the ones that it has had before or has got since; the first that is
there counts."""

PROVIDERS: Final = {
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Values of ``gen_ai.system`` that have another name as ``gen_ai.provider.name``."""

_TARGET: Final = "http.target"


def to_current(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """``attributes`` under the names of this version. What is under both keeps the newer one; the
    rest stays as it is."""
    found = dict(attributes)
    for name, others in NAMES.items():
        for other in others:
            if other in found:
                value = found.pop(other)
                found.setdefault(name, value)
    provider = found.get("gen_ai.provider.name")
    if isinstance(provider, str):
        found["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    target = found.pop(_TARGET, None)
    if isinstance(target, str):
        path, _, query = target.partition("?")
        found.setdefault("url.path", path)
        if query:
            found.setdefault("url.query", query)
    return found
