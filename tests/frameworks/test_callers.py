"""Whose draws are whose, framework by framework: the program's own, a library's, plumbing."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.frameworks.environments import ROOT, build
from tests.frameworks.servers import available

pytestmark = pytest.mark.slow

TIERS = {
    "httpx2": {
        "library": """
            agents anthropic google.genai langchain.agents langchain_anthropic langchain_core
            langchain_openai langgraph.pregel langsmith mcp openai pydantic pydantic_ai
        """,
        "plumbing": "aiohttp anyio boto3 botocore httpcore2 httpx httpx2 urllib3",
    },
    "httpx": {
        "library": "huggingface_hub litellm openai pydantic smolagents tiktoken",
        "plumbing": "aiohttp anyio httpcore httpx httpx_aiohttp requests",
    },
}
_ASK = """
import importlib.util, json, sys
from reenact.boundaries.caller_tier import tier
print(json.dumps({name: tier(name, importlib.util.find_spec(name).origin) for name in sys.argv[1:]}))
"""


@pytest.mark.parametrize("world", sorted(TIERS))
def test_modules_are_classified(world: str) -> None:
    with available():
        python = build(world)
    wanted = {name: tier for tier, names in TIERS[world].items() for name in names.split()}
    said = subprocess.run(
        [python, "-c", _ASK, *wanted],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={"PATH": "", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")},
        check=True,
    ).stdout
    assert json.loads(said) == wanted
