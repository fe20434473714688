"""The folder in which recordings from elsewhere are kept for a while."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.runs.remote.cache import Cache, cache_folder

SIZE = 1_000


class Source:
    """Fills with ``SIZE`` bytes, and counts how often."""

    def __init__(self) -> None:
        self.filled: list[str] = []

    def __call__(self, folder: Path) -> None:
        (folder / "content").write_bytes(b"x" * SIZE)
        self.filled.append(folder.name.partition(".")[0])


def is_good(entry: Path) -> bool:
    return (entry / "content").stat().st_size == SIZE


def keys(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir() if one.suffix != ".lock"}


def use(cache: Cache, source: Source, key: str) -> None:
    with cache.holding(key, source, is_good) as entry:
        assert is_good(entry)


def test_what_was_got_is_not_got_again_unless_it_is_damaged(tmp_path: Path) -> None:
    cache, source = Cache(tmp_path / "c"), Source()
    use(cache, source, "a")
    use(Cache(tmp_path / "c"), source, "a")
    assert source.filled == ["a"]
    (tmp_path / "c/a/content").write_bytes(b"")
    use(cache, source, "a")
    assert source.filled == ["a", "a"]


def test_it_is_bounded_and_what_was_used_last_stays(tmp_path: Path) -> None:
    source = Source()
    for number, key in enumerate("abcd"):
        use(Cache(tmp_path, 10 * SIZE), source, key)
        os.utime(tmp_path / f"{key}.lock", (number, number))
    use(Cache(tmp_path, 10 * SIZE), source, "a")
    use(Cache(tmp_path, 3 * SIZE), source, "e")
    assert keys(tmp_path) == {"a", "e"}, "with a little room for the next one"
    assert {one.stem for one in tmp_path.glob("*.lock")} == {"a", "e"}


def test_what_is_in_use_stays_however_little_room_there_is(tmp_path: Path) -> None:
    source = Source()
    with Cache(tmp_path, 1).holding("a", source, is_good) as one:
        with Cache(tmp_path, 1).holding("b", source, is_good) as other:
            assert is_good(one)
            assert is_good(other)
        use(Cache(tmp_path, 1), source, "c")
        assert keys(tmp_path) == {"a", "c"}
    use(Cache(tmp_path, 1), source, "d")
    assert keys(tmp_path) == {"d"}


def test_what_cannot_be_got_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("half")

    cache = Cache(tmp_path)
    with pytest.raises(ValueError, match="half"), cache.holding("a", fail, is_good):
        raise AssertionError("there is nothing to use")
    assert keys(tmp_path) == set()
    use(cache, Source(), "b")
    assert {one.name for one in tmp_path.glob("*.lock")} == {"b.lock"}


def test_many_want_the_same_and_one_gets_it(tmp_path: Path) -> None:
    source, start = Source(), threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        use(Cache(tmp_path), source, "a")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert source.filled == ["a"]


def test_many_share_a_folder_with_room_for_few(tmp_path: Path) -> None:
    """Entries are removed all the time, and never while somebody holds them."""
    source = Source()

    def work(number: int) -> None:
        cache = Cache(tmp_path, 2 * SIZE)
        for step in range(40):
            use(cache, source, "abcdef"[(number * 7 + step * 5) % 6])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    use(Cache(tmp_path, 2 * SIZE), source, "z")
    assert "z" in keys(tmp_path)
    assert len(keys(tmp_path)) <= 2


KILLED = """
import os, signal, sys
from pathlib import Path
from reenact.runs.remote.cache import Cache

def fill(folder):
    (folder / "content").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

with Cache(Path(sys.argv[1])).holding("a", fill, lambda entry: True):
    pass
"""


def test_one_that_is_killed_while_it_writes_is_in_nobodys_way(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], timeout=60)
    assert done.returncode == -9
    (left,) = keys(tmp_path)
    assert left.startswith("a.")
    use(Cache(tmp_path), Source(), "b")
    assert keys(tmp_path) == {"b"}, "what it left is removed"
    use(Cache(tmp_path), Source(), "a")
    assert keys(tmp_path) == {"a", "b"}


@pytest.mark.parametrize(
    "environ, folder",
    [
        ({"REENACT_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"REENACT_CACHE": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/reenact/recordings"),
        ({"HOME": "/h"}, "/h/.cache/reenact/recordings"),
    ],
    ids=["own", "shared", "home"],
)
def test_where_it_is(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)
