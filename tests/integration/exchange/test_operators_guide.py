"""The operators' guide, followed from top to bottom: its app, its commands, and what they print."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.integration.exchange.apps import Upstream
from tests.integration.exchange.desks import PATIENCE, Desk, Program
from tests.meta.markdown import Block, blocks, commands, matches
from tests.server.house import PASSWORD

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "operators.md"
CHANGING = re.compile(
    r"""(?<=127\.0\.0\.1:)\d+ | (?<=token=)[\w…]+ | (?<=rnk_agent_)\S+ | (?<=key\ is\ in\ )\S+
    | \b(?:ex|rpl|usr|key|agt|grt|cap)_\w+ | \breenact-[0-9a-f]+\.internal | (?<=sha256:)\w+
    | \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d\ UTC | [\d.,]+(?=\ ms\b) | (?<=completed\ 200\ )[\d.,]+(?=\ *$)
    | (?<=failed\ -\ )[\d.,]+(?=\ ) | [\d.]+\ (?:Ki)?B\b | (?<=trace\ )\w+ | (?<=record\ )\d+
    | (?<=curl/)[\d.]+""",
    re.MULTILINE | re.VERBOSE,
)
PASSING = re.compile(r"^reenact: replay \S+ (?:delivered|running)\n", re.MULTILINE)


class Follower:
    """Types the commands of the page. Ids, ports and secrets are those of this run."""

    def __init__(self, desk: Desk, warehouse: str, stack: ExitStack) -> None:
        self._desk = desk
        self._warehouse = warehouse
        self._stack = stack
        self._said: list[str] = []
        self._orders = 0

    def type(self, line: str) -> tuple[int, str]:
        """The exit code of a command, and what is to be seen of it."""
        words = shlex.split(line)
        if words[0] == "uvicorn":
            return self._open_shop(words)
        if words[0] == "curl":
            return self._order(words)
        if words[:2] == ["reenact", "serve"]:
            return self._serve(words)
        assert words[0] == "reenact", line
        code, printed = self._run([self._meant(word) for word in words[1:]])
        self._said.append(printed)
        return code, printed

    def _run(self, words: list[str]) -> tuple[int, str]:
        if words[0] == "login":
            words = [words[0], self.link, *words[2:], "--password-stdin"]
        done = self._desk.ran(*words, stdin=PASSWORD)
        return done.returncode, done.stderr + done.stdout

    def _meant(self, word: str) -> str:
        """An id on the page is the one that was printed last."""
        for kind in ("ex", "cap"):
            if re.fullmatch(rf"{kind}_\w+", word):
                return re.findall(rf"\b{kind}_\w+", "".join(self._said))[-1]
        return word

    def _serve(self, words: list[str]) -> tuple[int, str]:
        server = self._program("reenact", *words[1:], "--port", "0")
        server.until(r"or: reenact login .*\n")
        said = "".join(server.said[:4])
        self.link = re.findall(r"http://\S+token=\w+", said)[0]
        return 0, said

    def _program(self, *words: str, **environ: str) -> Program:
        return self._stack.enter_context(self._desk.program(*words, **environ))

    def _open_shop(self, words: list[str]) -> tuple[int, str]:
        (key,) = re.findall(r"\brnk_agent_\S+", "".join(self._said))
        shop = self._program(
            *words,
            "--port",
            "0",
            REENACT_SERVER=self.link.partition("/setup")[0],
            SHOP_KEY=key,
            WAREHOUSE=self._warehouse,
        )
        self._shop = shop.until(r"http://127\.0\.0\.1:\d+")
        return 0, ""

    def _order(self, words: list[str]) -> tuple[int, str]:
        url, name, value = words[1], *words[words.index("-H") + 1].split(": ")
        answer = httpx.post(
            f"{self._shop}/{url.partition('/')[2]}",
            content=words[words.index("-d") + 1],
            headers={name: value},
            trust_env=False,
            timeout=PATIENCE,
        )
        self._orders += 1
        self._until_listed(self._orders)
        return 0, answer.text

    def _until_listed(self, number: int) -> None:
        """An app sends its exchanges when it finds the time."""
        pause = threading.Event()
        for _ in range(int(PATIENCE * 10)):
            if len(self._desk.listed("exchange", "ls")) == number:
                return
            pause.wait(0.1)
        raise AssertionError("an order is not listed")


@pytest.fixture
def follower(tmp_path: Path, upstream: Upstream) -> Iterator[Follower]:
    upstream.answer = {"left": 20}
    with ExitStack() as stack:
        yield Follower(Desk(tmp_path), upstream.url, stack)


def plain(text: str) -> str:
    """Without what is another in every run, and without how wide columns are."""
    return PASSING.sub("", CHANGING.sub("#", re.sub(r" +", " ", text)))


@pytest.mark.slow
def test_the_guide_does_what_it_says(follower: Follower, tmp_path: Path) -> None:
    page = blocks(PAGE)
    (app,) = [block for block in page if block.language == "python"]
    (tmp_path / "shop.py").write_text(app.text, "utf-8")
    followed = [block for block in page if block.language == "console"]
    for block in followed:
        _follow(follower, block)
    assert len(followed) > 5


def _follow(follower: Follower, block: Block) -> None:
    typed = commands(block)
    for command in typed:
        code, printed = follower.type(command.typed)
        where = f"line {command.line}: {command.typed}\n{printed}"
        assert code == (block.exit_code if command is typed[-1] else 0), where
        if command.shown:
            shown = plain("".join(f"{line}\n" for line in command.shown))
            assert matches(tuple(shown.splitlines()), plain(printed)), where
