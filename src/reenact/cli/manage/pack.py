"""The ``pack`` and ``unpack`` commands: a recording as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact.cli._output import count, print_result, size
from reenact.cli._parser import RECORDING, Command, argument, json_flag, takes
from reenact.cli._recordings import PACKED, recording_at, written_json
from reenact.errors import UsageError
from reenact.store.pack import pack as write_packed
from reenact.store.pack import unpack as read_packed
from reenact.store.verify import Report

__all__ = ["COMMANDS"]


def pack(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    target = Path(args.file) if args.file else _default_target(path)
    found = write_packed(path, target)
    sealed = ", sealed values left out" if found.manifest.sealed else ""
    return _print_packed(found, target, args, f"{size(target.stat().st_size)}{sealed}")


def _default_target(path: Path) -> Path:
    whole = path if path.name not in ("", "..") else path.resolve()
    return whole.with_name(f"{whole.name}{PACKED}")


def unpack(args: argparse.Namespace) -> int:
    packed = Path(args.file)
    if args.target:
        target = Path(args.target)
    elif packed.suffix == PACKED:
        target = packed.with_suffix("")
    else:
        raise UsageError(
            f"cannot guess where to unpack {packed}: its name does not end in {PACKED}",
            hint=f"reenact unpack {packed} TARGET",
        )
    found = read_packed(packed, target, most=int(args.most * 2**30))
    return _print_packed(found, target, args, "verified")


def _print_packed(found: Report, target: Path, args: argparse.Namespace, remark: str) -> int:
    events = count(found.manifest.event_count, "event")
    return print_result(args, written_json(target, found.manifest), f"{target}: {events}, {remark}")


COMMANDS = {
    "pack": Command(
        description="Writes a recording into one compressed file, verified before and after. Sealed values stay "
        "at home.",
        example="reenact pack runs/today today.reenact",
        arguments=takes(
            argument("path RECORDING", RECORDING),
            argument("file [FILE]", "the file to write, otherwise RECORDING.reenact"),
            json_flag("what was done as JSON"),
        ),
        run=pack,
    ),
    "unpack": Command(
        description="Extracts a packed recording and verifies it.",
        example="reenact unpack today.reenact runs/received",
        arguments=takes(
            argument("file FILE", "a file that pack has written"),
            argument("target [TARGET]", "where to, otherwise FILE without .reenact"),
            argument(
                "--most GIB",
                "maximum size of the unpacked recording in GiB (default: 16)",
                type=float,
                default=16.0,
            ),
            json_flag("what was done as JSON"),
        ),
        run=unpack,
    ),
}
