"""Keys, signed notes, checkpoints and the change of keys, with the published examples."""

from __future__ import annotations

import io
import sys
from base64 import b64encode

import pytest

from reenact.audit.keys import Key, Signer
from reenact.audit.log import (
    Checkpoint,
    open_head,
    origin_of,
    parse_head,
    read_heads,
    sign_head,
    tenant_of,
)
from reenact.audit.merkle import EMPTY_ROOT
from reenact.audit.note import NoteSignature, check_rotation, parse_note, rotation_note, sign_note
from reenact.errors import AuditInvalid, ExtraMissing, UsageError
from tests.unit.audit.samples import ONE, ORIGIN, THIEF, TWO, a_log

# The examples of c2sp.org/signed-note and c2sp.org/tlog-checkpoint, and of Go's note package.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXm"
    "RKuwHjG1Yu72IneyaQM=\n"
)
POEM = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n"
    "— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMou"
    "FSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
)
CHECKPOINT = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhc"
    "yv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3"
    "b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SIGNER = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
GO_NOTE = (
    f"{GO_TEXT}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXg"
    "KvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_the_published_note_verifies_with_the_published_key() -> None:
    key = Key.from_text(EXAMPLE_KEY)
    note = parse_note(EXAMPLE.encode())
    assert note.signed_by([ONE.key, key]) == (key,)
    assert note.text == "This is an example message.\n"
    assert note.to_text() == EXAMPLE
    assert key.to_text() == EXAMPLE_KEY


def test_a_text_with_empty_lines_ends_at_the_last_one() -> None:
    note = parse_note(POEM.encode())
    assert note.text.endswith("\n\ned è subito sera.\n")
    assert note.to_text() == POEM


def test_signing_gives_the_bytes_that_go_gives() -> None:
    signer = Signer.from_text(GO_SIGNER)
    assert sign_note(GO_TEXT, [signer]).to_text() == GO_NOTE
    assert signer.to_text() == GO_SIGNER
    assert signer.key == Key.from_text(GO_KEY)


def test_a_signer_does_not_show_its_secret() -> None:
    signer = Signer.from_text(GO_SIGNER)
    assert repr(signer) == f"Signer({GO_KEY})"
    with pytest.raises(AuditInvalid) as caught:
        Signer.from_text(GO_SIGNER[:-3] + "AAA")
    assert "AYEK" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        EXAMPLE_KEY.replace("530d", "530e"),
        EXAMPLE_KEY.replace("530d", "530D"),
        EXAMPLE_KEY.replace("foo", "fo o"),
        EXAMPLE_KEY.replace("foo", ""),
        EXAMPLE_KEY.replace("foo", "bar"),
        EXAMPLE_KEY + "=",
        EXAMPLE_KEY + "\n",
        EXAMPLE_KEY.replace("+AekyeRr", "+AukyeRr"),
        EXAMPLE_KEY[:-4],
        EXAMPLE_KEY.replace("example", "\ud800"),
    ],
)
def test_a_mistyped_key_is_refused(text: str) -> None:
    with pytest.raises(AuditInvalid) as caught:
        Key.from_text(text)
    assert caught.value.reason in {"key.malformed", "key.name"}
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", GO_KEY, GO_SIGNER[:-4], GO_SIGNER.replace("c74f", "c74e")])
def test_a_mistyped_signing_key_is_refused(text: str) -> None:
    with pytest.raises(AuditInvalid, match="not a key"):
        Signer.from_text(text)


def test_a_seed_of_another_size_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        Signer("a", b"short")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(ExtraMissing) as missing:
        Signer("a", bytes(32))
    assert "reenact[seal]" in missing.value.hint
    with pytest.raises(ExtraMissing):
        Key("a", b"never loaded before".ljust(32)).verifies(bytes(64), b"")


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"\n",
        b"text\n",
        b"text\n\n",
        EXAMPLE.encode()[:-1],
        EXAMPLE.encode() + b"\n",
        EXAMPLE.encode() + b"more",
        EXAMPLE.replace("— ", "- ").encode(),
        EXAMPLE.replace("foo Uw2", "fooUw2").encode(),
        EXAMPLE.replace("foo Uw2", "foo  Uw2").encode(),
        EXAMPLE.replace("foo Uw2", "f+o Uw2").encode(),
        EXAMPLE.replace("aQM=", "aQN=").encode(),
        EXAMPLE.replace("aQM=", "aQM").encode(),
        EXAMPLE.replace("Uw2QOk", "Uw2Q Ok").encode(),
        EXAMPLE.replace("This", "Th\tis").encode(),
        EXAMPLE.replace("This", "Th\ris").encode(),
        b"\xff" + EXAMPLE.encode(),
        b"x\n\n\xe2\x80\x94 name AAAAAA==\n" + b"y" * 1_000_000,
        b"x\n\n" + "— name AAAAAAA=\n".encode() * 101,
        b"x\n\n" + "— name AAAAAA==\n".encode(),
    ],
    ids=range(20),
)
def test_what_is_not_exactly_a_note_is_refused(note: bytes) -> None:
    with pytest.raises(AuditInvalid) as caught:
        parse_note(note)
    assert caught.value.reason in {"note.malformed", "key.name"}


def test_sixteen_strangers_are_ignored() -> None:
    note = sign_note("hello\n", [*(Signer(f"n{n}", bytes([n]) * 32) for n in range(16)), ONE])
    assert parse_note(note.to_text().encode()).signed_by([ONE.key, TWO.key]) == (ONE.key,)


def test_a_key_with_only_the_name_or_only_the_id_is_a_stranger() -> None:
    note = parse_note(EXAMPLE.encode())
    other = Signer("example.com/foo", bytes(32)).key
    with pytest.raises(AuditInvalid, match="not signed by a key that is trusted") as caught:
        note.signed_by([other])
    assert caught.value.reason == "note.unsigned"
    assert "example.com/foo (530d903a)" in caught.value.message


def test_a_bad_signature_of_a_known_key_spoils_the_note() -> None:
    good = sign_note("hello\n", [ONE, TWO])
    bad = NoteSignature(TWO.key.name, TWO.key.id, bytes(64))
    note = type(good)(good.text, (good.signatures[0], bad))
    assert note.signed_by([ONE.key]) == (ONE.key,)
    with pytest.raises(AuditInvalid, match="is not one over this text") as caught:
        note.signed_by([ONE.key, TWO.key])
    assert caught.value.reason == "note.signature"
    short = NoteSignature(TWO.key.name, TWO.key.id, b"x")
    with pytest.raises(AuditInvalid, match="is not one over"):
        type(good)(good.text, (short,)).signed_by([TWO.key])


@pytest.mark.parametrize("text", ["", "no end", "tab\t\n"])
def test_a_text_that_cannot_be_a_note_is_not_signed(text: str) -> None:
    with pytest.raises(AuditInvalid, match="not a signed note"):
        sign_note(text, [ONE])


def test_the_published_checkpoint_is_read_with_its_witness() -> None:
    head = parse_head(CHECKPOINT.encode())
    assert head.checkpoint.origin == "example.com/behind-the-sofa"
    assert head.size == 20852163
    assert b64encode(head.root) == b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    assert [line.key_id.hex() for line in head.note.signatures] == ["033de0ae", "8d66cf3f"]
    assert head.to_text() == CHECKPOINT


def test_a_head_is_opened_by_the_key_of_its_log_only() -> None:
    checkpoint = Checkpoint(ORIGIN, 3, bytes(32), ("an extension",))
    data = sign_head(checkpoint, [ONE]).to_text().encode()
    assert open_head(data, [TWO.key, ONE.key]).checkpoint == checkpoint
    with pytest.raises(AuditInvalid) as caught:
        open_head(data, [TWO.key])
    assert caught.value.reason == "note.unsigned"
    witness = Signer("witness.example", bytes(32))
    other = sign_note(checkpoint.to_text(), [witness]).to_text().encode()
    with pytest.raises(AuditInvalid, match="which is not the log") as caught:
        open_head(other, [witness.key])
    assert caught.value.reason == "head.key"
    with pytest.raises(AuditInvalid, match="cannot sign for the log"):
        sign_head(checkpoint, [witness])


ROOT = b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n1\n",
        f"o\n1\n{ROOT}",
        f"\n1\n{ROOT}\n",
        f"o\n01\n{ROOT}\n",
        f"o\n-1\n{ROOT}\n",
        f"o\n+1\n{ROOT}\n",
        f"o\n1 \n{ROOT}\n",
        f"o\n١\n{ROOT}\n",
        f"o\n{2**53}\n{ROOT}\n",
        f"o\n{'9' * 5000}\n{ROOT}\n",
        f"o\n\n{ROOT}\n",
        f"o\n1\n{ROOT[:-4]}\n",
        f"o\n1\n{ROOT[:-1]}\n",
        f"o\n1\n{ROOT}\n\n",
        f"o\n1\n{ROOT}\nx\n\ny\n",
        f"o\n0\n{ROOT}\n",
    ],
)
def test_what_is_not_exactly_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(AuditInvalid, match="not a checkpoint") as caught:
        Checkpoint.from_text(text)
    assert caught.value.reason == "checkpoint.malformed"


def test_the_head_of_an_empty_log_has_the_root_of_nothing() -> None:
    text = Checkpoint("o", 0, EMPTY_ROOT).to_text()
    assert Checkpoint.from_text(text).size == 0
    assert text.split("\n")[2] == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def test_an_origin_names_deployment_and_tenant() -> None:
    assert origin_of("acme.example/x", "t-1") == "acme.example/x/audit/t-1"
    assert tenant_of("acme.example/audit/t/1") == ""
    assert tenant_of("acme.example") == ""
    for deployment, tenant in (("", "t"), ("a", ""), ("a", "b/c"), ("a b", "t"), ("a", "t+1")):
        with pytest.raises(AuditInvalid):
            origin_of(deployment, tenant)


def test_heads_in_a_row_are_read_one_by_one() -> None:
    notes = [head.to_text().encode() for head in a_log(4).heads]
    assert list(read_heads(io.BytesIO(b"\n".join(notes)))) == notes
    assert list(read_heads(io.BytesIO(b""))) == []
    with pytest.raises(AuditInvalid, match="more than"):
        list(read_heads(io.BytesIO(b"x" * 3_000_000)))


def test_a_key_hands_over_to_the_next() -> None:
    note = rotation_note(7, ONE, TWO)
    assert check_rotation(note, 7, ONE.key) == TWO.key
    assert note.startswith(
        f"reenact.audit/key-rotation/v1\n7\n{ONE.key.to_text()}\n{TWO.key.to_text()}\n\n— "
    )
    with pytest.raises(AuditInvalid, match="different record"):
        check_rotation(note, 8, ONE.key)
    with pytest.raises(AuditInvalid, match="not the key in force"):
        check_rotation(note, 7, THIEF.key)
    with pytest.raises(AuditInvalid, match="does not announce"):
        check_rotation(sign_note("x\n", [ONE]).to_text(), 7, ONE.key)


def test_both_keys_must_sign_the_change() -> None:
    text = parse_note(rotation_note(7, ONE, TWO).encode()).text
    with pytest.raises(AuditInvalid, match="requires the signatures of the old key"):
        check_rotation(sign_note(text, [ONE]).to_text(), 7, ONE.key)
    with pytest.raises(AuditInvalid, match="requires the signatures of the old key"):
        check_rotation(sign_note(text, [TWO]).to_text(), 7, ONE.key)
    with pytest.raises(AuditInvalid, match="requires a different key with the same name"):
        rotation_note(7, ONE, ONE)
    stranger = Signer("other.example/audit/t-1", bytes(32))
    foreign = "\n".join([*text.split("\n")[:3], stranger.key.to_text(), ""])
    with pytest.raises(AuditInvalid, match="different log"):
        check_rotation(sign_note(foreign, [ONE, stranger]).to_text(), 7, ONE.key)
