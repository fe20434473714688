"""The provider of ``provider.mjs`` as a process, and a browser that signs in there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin

import httpx

from tests.frameworks.environments import CACHE, locked, run_tool
from tests.frameworks.servers import _need_node

VERSION = "9.13.3"
"""Of ``oidc-provider``."""
_SCRIPT = Path(__file__).with_name("provider.mjs")


def install() -> Path:
    """The folder with the provider, which is installed first where it is not there."""
    folder = CACHE / "npm" / f"oidc-provider-{VERSION}"
    with locked(folder):
        if not (folder / "complete").exists():
            _need_node()
            folder.mkdir(parents=True, exist_ok=True)
            said = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
            hint = "hint: is the npm registry of this machine reachable?"
            wanted = f"oidc-provider@{VERSION}"
            run_tool(["npm", "install", *said, "--prefix", folder, wanted], hint)
            (folder / "complete").touch()
    return folder


class RealProvider:
    """A provider that has an address, and begins to work when it is configured."""

    def __init__(self, issuer: str, given: IO[str], said: IO[str]) -> None:
        self.issuer = issuer
        self._given = given
        self._said = said

    def configure(self, **configuration: Any) -> None:
        self._given.write(json.dumps(configuration) + "\n")
        self._given.flush()
        assert self._said.readline().strip() == "ready"


@contextmanager
def provider() -> Iterator[RealProvider]:
    process = subprocess.Popen(
        ["node", str(_SCRIPT), str(install())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        issuer = process.stdout.readline().strip()
        assert issuer.startswith("http://127.0.0.1:"), "the provider did not start"
        yield RealProvider(issuer, process.stdin, process.stdout)
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = found.get("action", "")
        if tag == "input" and "name" in found:
            self.fields[found["name"]] = found.get("value", "")


class Browser:
    """One with cookies, which follows redirects up to a place and fills in forms."""

    def __init__(self) -> None:
        self.http = httpx.Client(timeout=60, trust_env=False)

    def go(self, url: str, until: str = "") -> httpx.Response:
        """Follow redirects; stop before one that leads to ``until``."""
        answer = self.http.get(url)
        return self._follow(answer, until)

    def _follow(self, answer: httpx.Response, until: str) -> httpx.Response:
        while answer.is_redirect and not (until and until in answer.headers["location"]):
            answer = self.http.get(urljoin(str(answer.url), answer.headers["location"]))
        return answer

    def sign_in_at_provider(self, start: str, login: str, until: str) -> str:
        """From our sign-in to the address that leads back to us."""
        answer = self.go(start, until)
        while not answer.is_redirect:
            assert answer.status_code == 200, answer.text
            form = _Forms()
            form.feed(answer.text)
            fields = {**form.fields, "login": login, "password": "any"}
            data = {name: value for name, value in fields.items() if name in form.fields}
            posted = self.http.post(urljoin(str(answer.url), form.action), data=data)
            answer = self._follow(posted, until)
        return str(answer.headers["location"])
