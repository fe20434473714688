"""Whatever a recording says, a page shows it and obeys nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import reenact
from reenact.cli.main import main
from tests.browser.conftest import Page
from tests.browser.recording import DO, HOSTILE, NAMED, record

ODD: list[dict[str, Any]] = [
    {"request": {"url": 1, "method": ["odd"], "headers": "many", "type": "form", "body": [1, [2]]}},
    {"request": {"url": "x:", "headers": [1]}, "response": {"status": "many", "headers": {}}},
    {"source": "process", "request": {"argv": {"argv": 1}}, "response": {"stdout": ["x"]}},
]


def _report(target: Path) -> None:
    """One whose every text is hostile, in a place of the recording and in none."""
    evil = "".join(HOSTILE)
    seen = {"type": evil, "operation": evil, "lane": evil, "data": {evil: HOSTILE}}
    divergence = {
        "version": 1,
        "code": "event_payload_mismatch",
        "detail": evil,
        "lane": evil,
        "expected": {**seen, "version": 1, "captureId": evil, "runId": evil, "seq": 1, "ts": 1},
        "observed": seen,
        "paths": [
            {
                "path": evil,
                "jsonPath": evil,
                "kind": "changed",
                "expected": evil,
                "observed": [evil],
            }
        ],
        "nearest": [
            {"seq": 1, "lane": evil, "operation": evil, "score": 1, "paths": [evil], "used": True}
        ],
        "hint": evil,
        "flags": [evil],
    }
    listed = [{**divergence, "eventSeq": 1}, divergence]
    target.write_text(json.dumps({"divergences": listed}), encoding="utf-8")


def test_nothing_is_obeyed_and_nothing_is_loaded(page: Page, tmp_path: Path) -> None:
    run = tmp_path / NAMED
    record(run)
    _report(tmp_path / "report.json")
    target = tmp_path / f"{NAMED}.html"
    words = ["view", str(run), "-o", str(target), "--report", str(tmp_path / "report.json")]
    assert main([*words, "--draws"]) == 0
    address = target.as_uri()
    page.page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.log(e.violatedDirective))"
    )
    page.open(address)
    assert page.page.title() == NAMED
    shown = []
    page.press("s")
    for _ in range(16):
        page.unfold()
        shown.append(page.page.locator("#detail").text_content())
        page.press("j")
    for text in HOSTILE:
        assert any(text in (one or "") for one in shown), text
    page.press("/")
    page.page.keyboard.type(f"<script>{DO}")
    assert page.count("mark") > 0
    assert page.page.title() == NAMED
    allowed = "#detail img[src^='data:image/png;base64,']"
    assert page.count("body svg, body iframe, body style, #detail script") == 0
    assert page.count("#detail img") == page.count(allowed)
    assert page.count("body script") == 2
    assert page.said == []
    assert [one for one in page.asked_for if not one.startswith("data:image/png;")] == [address]


def test_what_has_another_shape_is_shown_all_the_same(page: Page, tmp_path: Path) -> None:
    run = tmp_path / "odd"
    with reenact.session(capture=run, mode="record") as session:
        for request in ODD:
            data = {
                "source": "network",
                "op": "GET",
                "key": "k",
                "valueHash": "sha256:0",
                **request,
            }
            session.record_event("nondeterministic", data)
        session.record_event("run_end", {"status": "error", "output": [NAMED, *HOSTILE]})
    target = tmp_path / "odd.html"
    assert main(["view", str(run), "-o", str(target)]) == 0
    page.open(target.as_uri())
    assert page.count("#list li") == len(ODD) + 1
    for text in ("odd", "many", "argv"):
        page.press("j")
        page.unfold()
        assert text in page.texts("#detail")[0]
    page.press("End")
    assert NAMED in page.texts("#detail")[0]
    assert page.said == []
