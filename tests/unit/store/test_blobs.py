from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reenact.errors import RecordingDamaged
from reenact.store.blobs import Blobs

CONTENT = b"content"
NAME = hashlib.sha256(CONTENT).hexdigest()


def test_a_blob_lies_under_the_first_two_digits_of_its_digest(tmp_path: Path) -> None:
    digest, file = Blobs(tmp_path / "blobs").put(CONTENT)
    assert digest == f"sha256:{NAME}"
    assert file == tmp_path / "blobs" / NAME[:2] / NAME
    assert file.read_bytes() == CONTENT


def test_putting_it_again_writes_nothing(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.put(CONTENT)
    assert blobs.put(CONTENT, sync=True) == (f"sha256:{NAME}", None)
    assert list(blobs.files()) == [tmp_path / NAME[:2] / NAME]


def test_what_is_read_is_what_the_name_says(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest, file = blobs.put(CONTENT, sync=True)
    assert blobs.get(digest) == CONTENT
    assert file is not None
    file.write_bytes(b"Content")
    with pytest.raises(RecordingDamaged, match="does not match its name") as caught:
        blobs.get(digest)
    assert caught.value.place == f"blob {digest}"
    file.unlink()
    with pytest.raises(RecordingDamaged, match="cannot be read") as caught:
        blobs.get(digest)
    assert caught.value.place == f"blob {digest}"


@pytest.mark.parametrize(
    "digest",
    [
        "",
        NAME,
        "md5:" + NAME,
        "sha256:" + NAME[:-1],
        "sha256:" + NAME.upper(),
        "sha256:../../../../../../../../../../../../../../../../../etc/passwd0000000",
        "sha256:" + "é" * 64,
    ],
)
def test_only_a_digest_names_a_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(RecordingDamaged, match="is not a digest"):
        Blobs(tmp_path).path(digest)


def test_a_folder_that_does_not_exist_has_no_files(tmp_path: Path) -> None:
    assert list(Blobs(tmp_path / "none").files()) == []
