"""Changing a recording on a copy beside it, which takes its place when all went well."""

from __future__ import annotations

import shutil
from pathlib import Path

from reenact.store.directory import swap
from reenact.store.file_access import read_regular
from reenact.store.layout import MANIFEST
from reenact.store.tape import open_tape, tape_blobs
from reenact.store.tape_sink import tidy_tape

__all__ = ["drop_stage", "stage", "take_stage"]


def stage(recording: Path) -> Path:
    """A copy of ``recording``, a tape or a capture directory. One that was left over goes."""
    copy = recording.with_name(f"{recording.name}.update")
    drop_stage(copy)
    if recording.is_dir():
        shutil.copytree(recording, copy)
        return copy
    if tape_blobs(recording).folder.exists():
        shutil.copytree(tape_blobs(recording).folder, tape_blobs(copy).folder)
    shutil.copy2(recording, copy)
    return copy


def drop_stage(copy: Path) -> None:
    """Remove a copy that was not needed."""
    for path in (copy, tape_blobs(copy).folder):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def take_stage(copy: Path, recording: Path) -> None:
    """``copy`` is what ``recording`` is from now on; in one step, but for the blobs of a tape, which
    are there before."""
    if recording.is_dir():
        if read_regular(copy / MANIFEST) == read_regular(recording / MANIFEST):
            drop_stage(copy)
        else:
            swap(copy, recording)
        return
    if read_regular(copy) == read_regular(recording):
        drop_stage(copy)
        return
    if tape_blobs(copy).folder.exists():
        shutil.copytree(tape_blobs(copy).folder, tape_blobs(recording).folder, dirs_exist_ok=True)
    copy.replace(recording)
    drop_stage(copy)
    with open_tape(recording) as source:
        tidy_tape(source)
