"""The same run recorded under other locales, time zones and hash seeds is the same recording."""

from __future__ import annotations

from pathlib import Path

from reenact import verify
from tests.integration.processes import run_program

PLACES: dict[str, dict[str, str]] = {
    "as it is": {},
    "C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "POSIX": {"LANG": "POSIX", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONHASHSEED": "1"},
    "Turkish": {"LANG": "tr_TR.ISO-8859-9", "LC_ALL": "tr_TR.ISO-8859-9", "PYTHONUTF8": "0"},
    "German": {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "TZ": "Europe/Berlin"},
    "Kiribati": {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "0"},
    "Marquesas": {"TZ": "Pacific/Marquesas", "PYTHONHASHSEED": "4294967295"},
    "ASCII streams": {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
}


def test_the_content_hash_does_not_depend_on_the_place(tmp_path: Path) -> None:
    hashes: dict[str, str] = {}
    for number, (place, variables) in enumerate(PLACES.items()):
        paths = [tmp_path / str(number) / name for name in ("capture", "tape.jsonl")]
        done = run_program("record_fixture", *paths, **variables)
        assert done.returncode == 0, (place, done.stderr)
        for path, printed in zip(paths, done.stdout.split(), strict=True):
            hashes[f"{place}, {path.name}"] = printed
            assert verify(path).manifest.integrity.content_hash == printed
    assert len(set(hashes.values())) == 1, hashes
