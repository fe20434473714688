"""``reenact diff``."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

import reenact
from reenact.store.reader import open_recording
from reenact.views.compare import Comparison
from reenact.views.html.compare_page import Bounds, compare_contents
from tests.cli.conftest import Run
from tests.snapshots import Snapshot

ROOT = Path(__file__).resolve().parents[2]
URL = "https://api.openai.com/v1/chat/completions"


class _Model(httpx.BaseTransport):
    """Says ``words`` after asking for a tool, with other ids and dates each time."""

    def __init__(self, words: str, salt: str) -> None:
        self._words, self._salt, self._calls = words, salt, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self._calls += 1
        call = {
            "id": f"call_{self._salt}",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city": "Bern"}'},
        }
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        if self._calls > 1:
            message = {"role": "assistant", "content": self._words}
        body = {
            "id": f"chatcmpl-{self._salt}",
            "model": "gpt-5",
            "choices": [{"message": message, "finish_reason": "stop"}],
        }
        headers = {"x-request-id": self._salt, "date": f"Mon, 0{self._calls} Nov 2026"}
        return httpx.Response(200, json=body, headers=headers)


def _record(path: Path, words: str, *, salt: str, question: str = "Warm?") -> Path:
    with (
        httpx.Client(transport=_Model(words, salt)) as client,
        reenact.session(capture=path, mode="record"),
    ):
        messages: list[Any] = [{"role": "user", "content": question}]
        first = client.post(URL, json={"model": "gpt-5", "messages": messages}).json()
        asked = first["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "21"}
        messages += [asked, result]
        client.post(URL, json={"model": "gpt-5", "messages": messages})
    return path


def test_what_is_new_in_every_run_is_no_difference(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is warm.", salt="two")
    ran = run("diff", one, other)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "reenact: no difference, 2 the same\n"
    assert run("diff", one, other, "--all").code == 1


def test_the_answer_is_compared_word_by_word(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is cold!", salt="two")
    ran = run("diff", one, other, "--width", 0)
    assert ran.code == 1
    assert ran.out == (
        "lane 0: 1 call the same\n"
        "  changed  event 3 -> 3  openai/gpt-5, call 1, attempt 0, 3 messages\n"
        "    $.response.answer.text\n"
        "      It is [-warm.-]{+cold!+}\n"
        "\n"
    )
    assert ran.err == "reenact: 1 changed, 1 the same\n"


def test_what_a_conversation_repeats_is_shown_once(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "Yes.", salt="one")
    other = _record(tmp_path / "b", "Yes.", salt="two", question="Cold?")
    out = run("diff", one, other).out
    assert out.count("[-Warm-]{+Cold+}?") == 1
    assert "$.request.body.messages[0].content: as at event 1" in out


def test_json_has_a_version_and_normalised_paths(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is cold.", salt="two")
    ran = run("diff", one, other, "--json")
    found = ran.json()
    assert (ran.code, found["version"], found["same"]) == (1, 1, False)
    assert found["counts"] == {"same": 1, "changed": 1, "added": 0, "removed": 0, "moved": 0}
    (change,) = found["lanes"][0]["changes"]
    assert change["differences"] == [
        {
            "path": "$['response']['answer']['text']",
            "kind": "changed",
            "one": "It is warm.",
            "other": "It is cold.",
        }
    ]
    assert change["other"] == {"seq": 3, "lane": "0", "kind": "llm", "name": "openai/gpt-5"}


def test_ignored_paths_do_not_count(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is cold.", salt="two")
    assert run("diff", one, other, "--ignore", "$.response.answer.text").code == 0
    ran = run("diff", one, other, "--ignore", "response")
    assert ran.code == 2
    assert "a path begins with '$' or a slash" in ran.err


def test_a_policy_says_what_does_not_count(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("policy", "init").code == 0
    place = tmp_path / ".reenact/policies/default.policy.json"
    policy = json.loads(place.read_text(encoding="utf-8"))
    policy["ignore"] = {"paths": ["$.response.answer.text"]}
    place.write_text(json.dumps(policy), encoding="utf-8")
    assert run("policy", "pin").code == 0
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is cold.", salt="two")
    assert run("diff", one, other, "--policy", "default").code == 0
    assert run("diff", one, other).code == 1


def test_only_the_numbers(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    ran = run("diff", one, one, "--stat")
    assert (ran.code, ran.out, ran.err) == (0, "reenact: no difference, 2 the same\n", "")


def test_what_was_recorded_is_not_obeyed(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "\x1b[31mred", salt="one")
    other = _record(tmp_path / "b", "\x1b[32mgreen", salt="two")
    out = run("diff", one, other).out
    assert "\x1b" not in out
    assert "\\u001b" in out


def test_a_recording_that_is_not_there(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "Yes.", salt="one")
    ran = run("diff", one, tmp_path / "none")
    assert ran.code == 3
    assert "no recording found" in ran.err


def test_how_it_looks(run: Run, tmp_path: Path, snapshot: Snapshot) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is very warm.", salt="two", question="Warm today?")
    ran = run("diff", one, other)
    assert ran.code == 1
    snapshot("diff", ran.out + ran.err)


def _greet(session: Any, *names: str) -> None:
    """Each in a thread of its own."""
    for name in names:
        greeting = partial(session.call, "greet", {"name": name}, name.title)
        thread = Thread(target=lambda greeting=greeting: greeting())
        thread.start()
        thread.join()


def _lookups(path: Path, *words: str, names: tuple[str, ...] = ()) -> Path:
    """A run that looks words up one after the other, and greets ``names``."""
    with reenact.session(capture=path, mode="record") as session:
        for word in words:
            session.call("look", {"word": word}, word.upper)
        _greet(session, *names)
    return path


class _Flaky(httpx.BaseTransport):
    """Fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._failures -= 1
        return httpx.Response(503 if self._failures >= 0 else 200)


def test_what_moved_was_retried_or_renamed(run: Run, tmp_path: Path, snapshot: Snapshot) -> None:
    for place, words, failures, tool, names in (
        ("a", "abc", 0, "search", "xyz"),
        ("b", "bca", 1, "web_search", "zxwy"),
    ):
        with (
            httpx.Client(transport=_Flaky(failures)) as client,
            reenact.session(capture=tmp_path / place, mode="record") as session,
        ):
            for word in words:
                session.call("look", {"word": word}, word.upper)
            while client.get("https://x.example/flaky").status_code == 503:
                pass
            session.call(tool, {"query": "trains"}, lambda: ["one", "two"])
            _greet(session, *names)
    ran = run("diff", tmp_path / "a", tmp_path / "b")
    assert ran.code == 1
    snapshot("diff-moved", ran.out + ran.err)


def test_the_first_difference_of_long_runs_is_told_at_once(
    run: Run, tmp_path: Path, snapshot: Snapshot
) -> None:
    words = [f"word {number}" for number in range(600)]
    one = _lookups(tmp_path / "a", *words)
    other = _lookups(tmp_path / "b", *words[:3], "another word", *words[4:], "more")
    ran = run("diff", one, other)
    snapshot("diff-first", ran.err)
    assert run("diff", one, other, "--stat").err == ""
    assert run("diff", one, one).err == "reenact: no difference, 600 the same\n"


def test_a_page_for_a_browser(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a" / "run", "It is warm.", salt="one")
    other = _record(tmp_path / "b" / "run", "It is cold.", salt="two")
    page = tmp_path / "page.html"
    ran = run("diff", one, other, "--html", page)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"wrote {page}, ")
    assert ran.err.endswith("reenact: 1 changed, 1 the same\n")
    text = page.read_text(encoding="utf-8")
    assert "<title>a/run ↔ b/run</title>" in text
    assert "default-src 'none'" in text
    told = run("diff", one, one, "--html", page, "--json").json()
    assert told == {
        "version": 1,
        "path": str(page),
        "bytes": page.stat().st_size,
        "same": True,
        "counts": {"same": 2, "changed": 0, "added": 0, "removed": 0, "moved": 0},
    }


def test_page_of_many_differences_is_bounded_and_says_how_to_see_all(
    run: Run, tmp_path: Path
) -> None:
    one = _lookups(tmp_path / "a", "same", "a", "b", "c")
    other = _lookups(tmp_path / "b", "same", "x", "y", "z")
    page = tmp_path / "page.html"
    whole = run("diff", one, other, "--html", page, "--json").json()
    assert whole["counts"]["changed"] == 3
    assert "left" not in whole
    ran = run("diff", one, other, "--html", page, "--limit", "1")
    assert f"it shows 1 of 3 differences\nfor all of them: reenact diff {one} {other}\n" in ran.err
    text = page.read_text(encoding="utf-8")
    assert "1 of 3 differences; reenact diff without --html prints all of them" in text
    assert '"word":"x"' in text
    assert '"word":"y"' not in text
    told = run("diff", one, other, "--html", page, "--limit", "1", "--json").json()
    assert (told["left"], told["counts"]) == (2, whole["counts"])
    with open_recording(one) as left, open_recording(other) as right:
        found = Comparison(left, right)
        bounds = Bounds(size=1, same=0)
        data = compare_contents(found, found.lanes(), ("a", left), ("b", right), bounds)
    assert data["left"] == 2
    assert data["lanes"][0]["parts"][0] == {"same": [], "unlisted": 1}


def test_a_page_about_one_lane_and_what_is_ignored(run: Run, tmp_path: Path) -> None:
    one = _lookups(tmp_path / "a", "x", names=("ann",))
    other = _lookups(tmp_path / "b", "y", names=("bob",))
    page = tmp_path / "page.html"
    ignore = ("--ignore", "$.args", "--ignore", "$.result")
    assert run("diff", one, other, "--html", page, *ignore).code == 0
    assert run("diff", one, other, "--html", page, "--lane", "0").code == 1
    assert '"word":"y"' in page.read_text(encoding="utf-8")
    assert "bob" not in page.read_text(encoding="utf-8")


def _fields(value: Any, path: str = "") -> set[str]:
    """The names of all fields, as the guide writes them; what was recorded is not looked into."""
    if isinstance(value, list):
        return {name for item in value for name in _fields(item, f"{path}[]")}
    if not isinstance(value, dict) or path.endswith(("notCompared", "differences[].one")):
        return set()
    names = {f"{path}.{name}".lstrip(".") for name in value}
    return names.union(
        *(_fields(item, f"{path}.{name}".lstrip(".")) for name, item in value.items())
    )


def test_the_guide_names_every_field_of_the_json(run: Run, tmp_path: Path) -> None:
    one = _record(tmp_path / "a", "It is warm.", salt="one")
    other = _record(tmp_path / "b", "It is cold.", salt="two")
    guide = (ROOT / "docs/guides/diff.md").read_text(encoding="utf-8").partition("| field |")[2]
    documented = set(re.findall(r"^\| `([\w.\[\]]+)` \|", guide, re.MULTILINE))
    told = run("diff", one, other, "--json").json()
    assert _fields(told) == documented
    (lane,) = told["lanes"]
    assert lane["same"] == told["counts"]["same"] == 1


@pytest.mark.parametrize("ends", [("a", "b.jsonl"), ("a.jsonl", "b")])
def test_a_tape_and_a_capture_are_compared(run: Run, tmp_path: Path, ends: tuple[str, str]) -> None:
    one = _record(tmp_path / ends[0], "It is warm.", salt="one")
    same = _record(tmp_path / ends[1], "It is warm.", salt="two")
    other = _record(tmp_path / "other", "It is cold.", salt="two")
    assert run("diff", one, same).err == "reenact: no difference, 2 the same\n"
    assert run("diff", one, other).err == "reenact: 1 changed, 1 the same\n"
