"""The canonical key of a value, against the fastest encoder and against the reference one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import rfc8785

from bench.measure import Row, Setting, at_least, at_most, cpu, interleave, ratio
from bench.traffic import chat_requests, vector
from reenact.format.canonical import canonical, digest

TITLE = "canonical key and digest"

_SIZES = {"1 KB": (1_000, 400), "10 KB": (10_000, 80), "100 KB": (100_000, 12), "1 MB": (10**6, 2)}


def run(setting: Setting) -> Iterator[Row]:
    for label, (size, count) in _SIZES.items():
        yield from _rows(setting, label, chat_requests(size, count), promised=True)
    wide = [_with_emoji(value) for value in chat_requests(1_000, 400)]
    yield from _rows(setting, "1 KB with emoji", wide, promised=False)
    yield from _rows(setting, "1536 floats", [vector()] * 8, promised=False)


def _rows(
    setting: Setting, label: str, values: list[dict[str, Any]], *, promised: bool
) -> Iterator[Row]:
    for value in values:
        if canonical(value) != rfc8785.dumps(value):
            raise AssertionError(f"{label}: the canonical form is not that of rfc8785")
    rounds = setting.rounds
    repeated = values * setting.scaled(20)
    times = interleave(
        {"ours": _over(digest, repeated), "orjson": _over(_orjson_digest, repeated)}, rounds
    )
    yield ratio(
        f"key, {label}: / orjson sorted + sha256",
        times["ours"],
        times["orjson"],
        at_most(3) if promised else None,
    )
    times = interleave(
        {"ours": _over(digest, values * 8), "peer": _over(_peer_digest, values)}, rounds
    )
    yield ratio(
        f"key, {label}: rfc8785 + sha256 / ours",
        [8 * seconds for seconds in times["peer"]],
        times["ours"],
        at_least(7) if promised else None,
    )


def _over(work: Callable[[Any], Any], values: list[Any]) -> Callable[[], float]:
    return lambda: cpu(work, values)


def _orjson_digest(value: Any) -> str:
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def _peer_digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(rfc8785.dumps(value)).hexdigest()}"


def _with_emoji(value: dict[str, Any]) -> dict[str, Any]:
    first = value["messages"][0]
    return {**value, "messages": [{**first, "content": f"😀 {first['content']}"}]}
