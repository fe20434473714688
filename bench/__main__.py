"""``python -m bench [NAME …]``: measure what was promised."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import traceback
from pathlib import Path
from time import perf_counter

from bench.measure import Row, Setting
from bench.report import as_json, as_table, into_markdown

NAMES = (
    "key",
    "append",
    "record",
    "durability",
    "opening",
    "replay",
    "decide",
    "served",
    "off",
    "lanes",
    "size",
    "http_replay",
    "http_record",
    "http_off",
    "draws",
    "processes",
    "startup",
    "program",
    "diff",
    "suite",
    "search",
    "regress",
    "exchange",
    "app_agent",
    "server_ingest",
    "server_commands",
    "server_pages",
    "server_agents",
    "server_audit",
)


def main() -> int:
    options = _options()
    rows: list[Row] = []
    crashed: list[str] = []
    for name in options.names or NAMES:
        try:
            rows += _measure(name, options.quick)
        except Exception:
            crashed.append(name)
            traceback.print_exc()
    print(as_table(rows))
    if options.json:
        options.json.write_text(as_json(rows) + "\n", encoding="utf-8")
    if options.markdown:
        words = ["python -m bench", *(["--quick"] if options.quick else []), *options.names]
        into_markdown(options.markdown, rows, " ".join(words), whole=not options.names)
    missed = [row.name for row in rows if row.verdict == "MISS"]
    for name in crashed:
        print(f"error: the benchmark {name} crashed", file=sys.stderr)
    return 1 if crashed or (options.strict and missed) else 0


def _measure(name: str, quick: bool) -> list[Row]:
    module = importlib.import_module(f"bench.{name}")
    print(f"- {module.TITLE}", file=sys.stderr)
    start = perf_counter()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="reenact-bench-") as folder:
        setting = Setting(Path(folder), quick, say=lambda text: print(f"  {text}", file=sys.stderr))
        for row in module.run(setting):
            print(f"  {row.name}: {row.value:.3g} {row.unit} {row.verdict}", file=sys.stderr)
            rows.append(row)
    print(f"  {perf_counter() - start:.0f} s", file=sys.stderr)
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="less work, fewer rounds")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="fill in the table of a page")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
