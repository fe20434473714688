"""Where a secret can stand in what a program sends and receives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["BY_NAME", "FREE", "every_split"]

Place = Callable[[str], Any]


def _multipart(name: str, value: str) -> str:
    lines = [
        "--limit",
        f'Content-Disposition: form-data; name="{name}"',
        "",
        value,
        "--limit",
        'Content-Disposition: form-data; name="file"; filename="a.txt"',
        "Content-Type: text/plain",
        "",
        "nothing",
        "--limit--",
        "",
    ]
    return "\r\n".join(lines)


def every_split(text: str, step: int = 1) -> list[dict[str, Any]]:
    """``text`` as a stream of chunks, cut at every offset."""
    cuts = range(1, len(text), step)
    return [{"chunks": [f"data: {text[:cut]}", f"{text[cut:]}\n\n"]} for cut in cuts]


def _bytes_split(text: str) -> list[dict[str, Any]]:
    raw = text.encode()
    third = max(1, len(raw) // 3)
    return [
        {"chunks": [b"\xff" + raw[:third], raw[third:]]},
        {"chunks": [{"bytes": raw[:third], "t": 1}, {"bytes": raw[third:], "t": 2}]},
        {"chunks": [{"data": raw[:1].decode()}, {"data": raw[1:].decode()}]},
    ]


# The secret gives itself away, nothing around it does.
FREE: dict[str, Place] = {
    "text": lambda s: s,
    "in a sentence": lambda s: f"I used {s}, and it worked.",
    "between brackets": lambda s: f"({s}) <{s}> [{s}]",
    "nested": lambda s: {"a": {"b": [{"c": [1, {"d": s}]}]}},
    "in a list": lambda s: [1, None, s, [s]],
    "in JSON in a string": lambda s: json.dumps({"x": [s]}),
    "in JSON in JSON in a string": lambda s: json.dumps({"y": json.dumps({"x": s})}),
    "in indented JSON in a string": lambda s: json.dumps({"x": {"y": s}}, indent=2),
    "in a repr": lambda s: repr({"x": s}),
    "in a path of a URL": lambda s: f"https://x.example/v1/{quote(s, safe='')}/y",
    "in a query": lambda s: f"https://x.example/?q=1&r={quote_plus(s)}&t=2",
    "in a fragment": lambda s: f"https://x.example/#r={quote(s, safe='')}",
    "in a form": lambda s: f"a=1&b={quote_plus(s)}&c=3",
    "in multipart": lambda s: _multipart("note", s),
    "in a dict of headers": lambda s: {"headers": {"X-Custom": s, "Accept": "*/*"}},
    "in pairs of headers": lambda s: {"headers": [["x-custom", s], ["accept", "*/*"]]},
    "in named headers": lambda s: {"headers": [{"name": "x-custom", "value": s}]},
    "in an error": lambda s: {"class": "ValueError", "message": f"cannot use '{s}' here"},
    "in a traceback": lambda s: f'File "a.py", line 3\n    f("{s}")\nValueError: {s}\n',
    "in argv": lambda s: ["prog", "--verbose", s, f"--x={s}"],
    "in an assignment": lambda s: f"export FOO='{s}'\nBAR={s}\n",
    "as bytes": lambda s: s.encode(),
    "as bytes in JSON": lambda s: {"body": json.dumps({"x": s}).encode()},
    "as bytes with noise": lambda s: b"\xff\xfe " + s.encode() + b" \x00",
    "in coloured text": lambda s: f"\x1b[31m{s}\x1b[0m",
    "in a cookie": lambda s: {"headers": {"Cookie": f"theme=dark; sid={s}; a=b"}},
    "in a set-cookie": lambda s: {"headers": [["Set-Cookie", f"sid={s}; Path=/; HttpOnly"]]},
    "in a stream of text": lambda s: every_split(s, max(1, len(s) // 7)),
    "in a stream of bytes": _bytes_split,
}

# The name gives the secret away.
BY_NAME: dict[str, Callable[[str, str], Any]] = {
    "under its name": lambda n, s: {n: s},
    "nested under its name": lambda n, s: {"a": [{"b": {n: s}}]},
    "in a list under its name": lambda n, s: {n: [s, [s]]},
    "in an object under its name": lambda n, s: {n: {"a": s, "b": [s]}},
    "as bytes under its name": lambda n, s: {n: s.encode()},
    "in JSON in a string": lambda n, s: json.dumps({"a": {n: s}}),
    "in JSON in JSON in a string": lambda n, s: json.dumps({"y": json.dumps({n: s})}),
    "in indented JSON": lambda n, s: json.dumps({n: s, "z": 1}, indent=4),
    "in JSON as bytes": lambda n, s: json.dumps({"a": [{n: s}]}).encode(),
    "in a repr": lambda n, s: f"Client({ {n: s}!r})",
    "in a query": lambda n, s: f"https://x.example/a?b=1&{quote(n)}={quote(s)}&c=2",
    "in a form": lambda n, s: f"b=1&{quote(n)}={quote_plus(s)}&c=2",
    "in a form as bytes": lambda n, s: f"{quote(n)}={quote_plus(s)}&c=2".encode(),
    "in multipart": lambda n, s: _multipart(n, s),
    "in a dict of headers": lambda n, s: {"headers": {n: s}},
    "in pairs of headers": lambda n, s: {"headers": [["Accept", "*/*"], [n, s]]},
    "in pairs of bytes": lambda n, s: {"headers": [[b"accept", b"*/*"], [n.encode(), s.encode()]]},
    "in named values": lambda n, s: [{"name": n, "value": s}, {"name": "a", "value": "b"}],
    "in a stream": lambda n, s: every_split(json.dumps({"a": 1, n: s, "z": 2}), 5),
}
