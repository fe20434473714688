"""The reference page says all that the code can say."""

from __future__ import annotations

import re
from pathlib import Path

from reenact.audit.bundle import FILES
from reenact.audit.record import ACTIONS, OUTCOMES, Record
from reenact.audit.verify_records import CODES

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "audit-log.md").read_text(encoding="utf-8")
SOURCE = "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/reenact/audit").glob("*.py"))
)


def rows(heading: str) -> dict[str, str]:
    """Name and text of each row below a heading."""
    _, _, below = PAGE.partition(f"\n## {heading}\n")
    section = below.partition("\n## ")[0]
    return {
        name: text.strip()
        for names, text in re.findall(r"^\| (`.+?`) \| ?(.*)\|$", section, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }


def test_every_code_is_explained_in_the_same_words() -> None:
    assert rows("What a verifier finds") == CODES


def test_every_action_is_there_with_what_it_must_say() -> None:
    encoded = dict(zip(Record.__struct_fields__, Record.__struct_encode_fields__, strict=True))
    found = rows("Record")
    for action, required in ACTIONS.items():
        assert re.findall(r"`(\w+)`", found[action]) == [encoded[name] for name in required]
    assert set(re.findall(r"`(\w+)`", found["outcome"])) == OUTCOMES
    assert set(Record.__struct_encode_fields__) <= set(found)


def test_every_reason_is_there() -> None:
    found = set(re.findall(r'reason="([\w.]+)"', SOURCE)) | {"proof.short", "proof.long"}
    assert found == set(rows("Errors"))


def test_every_file_is_there() -> None:
    assert set(rows("Export")) == set(FILES)
