"""Names of attributes, old and new."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.interop.otel import NAMES, SCHEMA_URL, SCHEMA_VERSION, to_current


@pytest.mark.parametrize(
    "came, kept",
    [
        ({"gen_ai.system": "openai"}, {"gen_ai.provider.name": "openai"}),
        ({"gen_ai.system": "vertex_ai"}, {"gen_ai.provider.name": "gcp.vertex_ai"}),
        ({"gen_ai.usage.prompt_tokens": 3}, {"gen_ai.usage.input_tokens": 3}),
        ({"gen_ai.usage.completion_tokens": 4}, {"gen_ai.usage.output_tokens": 4}),
        (
            {"gen_ai.usage.cache_write.input_tokens": 5},
            {"gen_ai.usage.cache_creation.input_tokens": 5},
        ),
        (
            {"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.input_tokens": 7},
            {"gen_ai.usage.input_tokens": 7},
        ),
        (
            {"http.method": "GET", "http.target": "/a?b=1", "http.status_code": 200},
            {
                "http.request.method": "GET",
                "url.path": "/a",
                "url.query": "b=1",
                "http.response.status_code": 200,
            },
        ),
        ({"deployment.environment": "live"}, {"deployment.environment.name": "live"}),
        ({"app.own": 1}, {"app.own": 1}),
    ],
)
def test_old_and_new_names_are_taken(came: dict[str, Any], kept: dict[str, Any]) -> None:
    assert to_current(came) == kept
    assert to_current(kept) == kept


def test_no_name_stands_for_two() -> None:
    others = [other for several in NAMES.values() for other in several]
    assert len(others) == len(set(others))
    assert not set(others) & set(NAMES)


def test_the_version_is_in_the_address() -> None:
    assert SCHEMA_URL.endswith(f"/{SCHEMA_VERSION}")
