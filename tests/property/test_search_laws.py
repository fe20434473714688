"""Whatever happens to recordings: the index that follows them is the one that is created again."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.search.index import Index, has_full_text
from reenact.search.query import Term
from reenact.search.search import texts_with
from reenact.search.sources import scan
from reenact.search.updater import Updater, key_of
from reenact.store.recording import Recording
from tests.unit.search.finding import Project, add, begin, contents, record, tool

TEXTS = ("warm", "cold", "lukewarm 東京", "say it again")

names = st.sampled_from(["a", "b", "c.jsonl"])
texts = st.sampled_from(TEXTS)
changes = st.one_of(
    st.tuples(st.just("record"), names, st.lists(texts, max_size=3)),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("touch"), names),
    st.tuples(st.just("damage"), names),
    st.tuples(st.just("say"), texts),
    st.tuples(st.just("ask"), texts),
    st.tuples(st.just("answer"), texts),
    st.tuples(st.just("finish")),
    st.tuples(st.just("search")),
)


class _World:
    """Recordings that come and go, and one that is being made, with a conversation in it."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder, {})
        self.project.runs.mkdir(parents=True)
        self._growing: Recording | None = None
        self._made = 0
        self._history: list[dict[str, str]] = []
        self._open: list[int] = []

    def do(self, what: str, *details: Any) -> None:
        getattr(self, f"_{what}")(*details)

    def end(self) -> None:
        if self._growing is not None:
            self._growing.finish()

    def _record(self, name: str, said: list[str]) -> None:
        self._remove(name)
        record(self.project.runs / name, *said)

    def _remove(self, name: str) -> None:
        path = self.project.runs / name
        shutil.rmtree(path, ignore_errors=True)
        if path.is_file():
            path.unlink()

    def _log(self, name: str) -> Path:
        path = self.project.runs / name
        return path / "events.jsonl" if path.is_dir() else path

    def _touch(self, name: str) -> None:
        if self._log(name).exists():
            os.utime(self._log(name), ns=(0, len(self._history) + 1))

    def _damage(self, name: str) -> None:
        log = self._log(name)
        if log.exists():
            log.write_bytes(log.read_bytes().replace(b"warm", b"ward"))

    def _recording(self) -> Recording:
        if self._growing is None:
            self._made += 1
            self._history, self._open = [], []
            self._growing = begin(self.project.runs / f"growing{self._made}")
        return self._growing

    def _say(self, text: str) -> None:
        tool(self._recording(), text, answered=text != "cold")

    def _ask(self, text: str) -> None:
        recording = self._recording()
        self._history.append({"role": "user", "content": text})
        body = {"model": "m", "messages": self._history}
        url = "https://api.openai.com/v1/chat/completions"
        request = {"method": "POST", "url": url, "body": body, "type": "json"}
        data = {"lens": "openai.chat", "provider": "openai", "model": "m", "request": request}
        self._open.append(add(recording, "llm_request", data))

    def _answer(self, text: str) -> None:
        if not self._open or self._growing is None:
            return
        body = f'{{"choices": [{{"message": {{"content": "{text}"}}}}]}}'
        headers = [["content-type", "application/json"]]
        response = {"status": 200, "headers": headers, "body": body}
        add(self._growing, "llm_response", {"response": response}, self._open.pop())
        self._history.append({"role": "assistant", "content": text})

    def _finish(self) -> None:
        self.end()
        self._growing = None

    def _search(self) -> None:
        self.project.ask()


characters = st.sampled_from("aAbßẞİıﬁΣσς東京タé\u0301\U0001f600_-\"'*% \n") | st.characters(
    exclude_categories=["Cs"], exclude_characters="\0"
)


@given(st.lists(st.text(characters, max_size=12), max_size=8), st.data())
def test_the_index_leaves_out_nothing_that_is_there(bodies: list[str], data: st.DataObject) -> None:
    whole = "".join(bodies) or "x"
    start = data.draw(st.integers(0, len(whole) - 1))
    sought = whole[start : start + data.draw(st.integers(1, 6))]
    sought = data.draw(st.sampled_from([sought, sought.upper(), sought.lower(), sought.swapcase()]))
    if not sought.strip():
        return
    term = Term(sought, starts=data.draw(st.booleans()))
    with Index(None, words=has_full_text(), notify=print) as index:
        for number, body in enumerate(bodies):
            index.database.execute(
                "INSERT INTO texts VALUES (?, ?, ?)", (number, b"%d" % number, body)
            )
            index.database.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (number, body))
        found = sorted(texts_with(index.database, term, index.words))
    assert found == [number for number, body in enumerate(bodies) if term.is_in(body)]


@settings(max_examples=25)
@given(st.lists(changes, max_size=14))
def test_an_index_that_follows_is_one_that_is_made_anew(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = _World(Path(folder))
        for step in steps:
            world.do(*step)
        project = world.project
        project.ask()
        found = {key_of(one.path, project.root): one for one in scan([project.runs]).values()}
        with (
            Index(project.index, words=has_full_text(), notify=project.say) as kept,
            Index(None, words=has_full_text(), notify=project.say) as anew,
        ):
            updater = Updater(anew.database, project.root, words=anew.words, notify=project.say)
            updater.update(found, [])
            assert contents(kept.database) == contents(anew.database)
            assert kept.database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert not project.said
        world.end()
