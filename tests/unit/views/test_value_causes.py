"""How two values are alike: what is found, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.views.explain.value_causes import changing, rewritten


@pytest.mark.parametrize(
    "one,other,expected",
    [
        ("a  b\n", "a b", "whitespace"),
        ("e\u0301", "\u00e9", "unicode"),
        ("it\u2019s", "it's", "unicode"),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', "serialisation"),
        (0.1 + 0.2, 0.3, "number"),
        ("costs 0.30000000000000004", "costs 0.3", "number"),
        ("1.0", 1.0, "number"),
        ("b, a", "a, b", "items"),
        ("['b', 'a']", "['a', 'b']", "items"),
        ("key ***REDACTED***", "key abc", "redaction"),
        ("it is warm", "it is cold", ""),
        ("1", "2", ""),
        (1, 2, ""),
        (0.1, 0.2, ""),
        (1794857832.92, 1794857833.08, ""),
        ("at 1794857832.92", "at 1794857839.08", ""),
        (True, 1, ""),
        (None, "a", ""),
        ("version 1.2", "version 1.3", ""),
        ("", "a", ""),
    ],
)
def test_written_another_way(one: Any, other: Any, expected: str) -> None:
    assert rewritten(one, other) == expected
    assert rewritten(other, one) == expected


@pytest.mark.parametrize(
    "path,one,other,expected",
    [
        (("text",), "at 2026-11-16T09:12:44Z", "at 2026-11-17T00:00:00Z", {"clock": "timestamps"}),
        (("text",), "on 2026-11-16", "on 2026-11-17", {"date": None}),
        (("text",), "It is 09:12.", "It is 17:40.", {"clock": None}),
        (("n",), 1794855152.5, 1794941552, {"clock": None}),
        (("ts",), 5, 6, {"clock": "timestamps"}),
        (("text",), "took 12.3ms", "took 15.1ms", {"duration": "durations"}),
        (("trace_id",), "abcd", "efgh", {"id": None}),
        (("nonce",), 8231, 1201, {"id": None}),
        (("requestId",), "r-7f3a99c1d0", "r-0b8e11aa27", {"chance": None}),
        (("paid",), "full", "half", {}),
        (("text",), "run 3f9a1c2b77 now", "run 9b2e0d4c11 now", {"chance": None}),
        (("text",), "in /var/folders/xy/1/T/a", "in /var/folders/zz/2/T/a", {"tmp_path": None}),
        (("url",), "http://localhost:8001/a", "http://localhost:8017/a", {"port": None}),
        (("agent",), "httpx/0.27.0 a", "httpx/0.28.1 a", {"version": None}),
        (("text",), "in /home/ada/a", "in /home/bob/a", {"home": None}),
        (("text",), "it is warm", "it is cold", {}),
        (("n",), 2, 5, {}),
        (("n",), 20261116, 20261117, {}),
        (("text",), "buy 3 apples", "buy 5 apples", {}),
        (("text",), "is 1.5 m", "is 2.5 m", {}),
        (("text",), "covid19", "covid20", {}),
        (("text",), "at 2026-11-16T09:12:44Z it is warm", "at 2026-11-17T09:12:44Z it is cold", {}),
        (("model_id",), "gpt-5", "gpt-4", {}),
        (("paid",), "yes it is", "no it is not", {}),
        (("valid",), True, False, {}),
    ],
)
def test_another_one_in_every_run(
    path: tuple[str, ...], one: Any, other: Any, expected: dict[str, str | None]
) -> None:
    assert changing(path, one, other) == expected
    assert changing(path, other, one) == expected
