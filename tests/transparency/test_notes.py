"""Signed notes: those of the specs are read, hostile ones are refused at once."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadNote, BadSignature
from evenkeel.transparency.keys import VerifierKey, base64_text
from evenkeel.transparency.notes import MOST_BYTES, MOST_SIGNATURES, Note, parse_note, signed_note, verified
from tests.transparency.logs import LOG_KEY, NOON, OTHER_KEY, WITNESS_KEY

# C2SP signed-note, *Verifier keys*, *Example* (CC BY 4.0).
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
# The checkpoint of sum.golang.org in FiloSottile/torchwood (cmd/litewitness/testdata/sumdb.txt, ISC licence).
SUMDB_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
SUMDB = """go.sum database tree
35225469
vt5T6GaLCXvyHFl9VUvvItR43XZxfLgftEcTyO3eJCQ=

— sum.golang.org Az3grpukl5AXaVfYkLiDGORx/DN2nlcS5kZHR5uYOBV2KA2HgXpD+gu9HHONebHLAyaKbbTM75QTtPydhKCExixSfwQ=
"""
TEXT = "a text\n\nwith an empty line\n"
NOTE = signed_note(TEXT, [LOG_KEY])
LINE = NOTE.signatures[0].line
KEYS = [LOG_KEY.verifier]


@pytest.mark.parametrize(("text", "key"), [(EXAMPLE, EXAMPLE_KEY), (SUMDB, SUMDB_KEY)])
def test_notes_of_others_are_verified(text: str, key: str) -> None:
    note = parse_note(text.encode())
    (found,) = verified(note, [VerifierKey.read(key)])
    assert found.key.text == key
    assert note.data == text.encode()


def test_a_note_has_its_text_up_to_the_last_empty_line() -> None:
    note = parse_note(NOTE.data)
    assert note == NOTE
    assert note.text == TEXT
    assert [one.key for one in verified(note, KEYS)] == KEYS


def test_unknown_signatures_are_passed_over_and_a_wrong_known_one_is_an_error() -> None:
    both = signed_note(TEXT, [OTHER_KEY, LOG_KEY])
    assert [one.key for one in verified(both, KEYS)] == KEYS
    with pytest.raises(BadSignature, match="no known key has signed"):
        verified(NOTE, [OTHER_KEY.verifier])
    with pytest.raises(BadSignature, match="no key at all"):
        verified(NOTE, [])
    with pytest.raises(BadSignature, match="is wrong"):
        verified(Note("another text\n", both.signatures), KEYS)
    wrong = Note(TEXT, (*NOTE.signatures, Note("x\n", ()).with_signatures([LOG_KEY.sign(b"x\n")]).signatures[0]))
    with pytest.raises(BadSignature, match="is wrong"):  # one right and one wrong by the same key
        verified(wrong, KEYS)


def test_a_known_name_with_another_id_is_an_unknown_key() -> None:
    signature = NOTE.signatures[0]
    line = f"— {signature.name} {base64_text(b'0000' + signature.body)}\n"
    assert len(verified(parse_note((TEXT + "\n" + line + LINE).encode()), KEYS)) == 1


def test_a_name_that_looks_alike_is_another_name_and_is_shown_as_such() -> None:
    line = LINE.replace("example.com", "ехample.com")  # two Cyrillic letters
    with pytest.raises(BadSignature, match=r"\\u0435\\u0445ample\.com"):
        verified(parse_note((TEXT + "\n" + line).encode()), KEYS)


def test_two_keys_that_cannot_be_told_apart_are_refused() -> None:
    class _Alike(VerifierKey):
        @property
        def key_id(self) -> bytes:
            return KEYS[0].key_id

    with pytest.raises(BadNote, match="share an id"):
        verified(NOTE, [KEYS[0], _Alike(KEYS[0].name, 1, bytes(32))])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "without the empty line"),
        (b"text\n", "without the empty line"),
        (b"text\n\n", "no line feed at its end"),
        (f"text\n\n{LINE[:-1]}".encode(), "no line feed at its end"),
        (f"text\n\n{LINE}\n".encode(), "no line feed at its end"),
        (f"te\0xt\n\n{LINE}".encode(), "control character"),
        (f"text\r\n\r\n{LINE}".encode(), "without the empty line"),
        (f"text\r\n\n{LINE}".encode(), "control character"),
        (f"te\txt\n\n{LINE}".encode(), "control character"),
        (b"te\xffxt\n\n" + LINE.encode(), "not UTF-8"),
        (b"te\xed\xa0\x80xt\n\n" + LINE.encode(), "not UTF-8"),
        (f"text\n\n{LINE[2:]}".encode(), "not a signature"),
        (f"text\n\n-{LINE[1:]}".encode(), "not a signature"),
        (f"text\n\n{LINE.replace(' ', chr(0xA0), 1)}".encode(), "not a signature"),
        (f"text\n\n{LINE.replace('example', 'exam ple')}".encode(), "not a signature"),
        (f"text\n\n{LINE.replace('example', 'exam+ple')}".encode(), "not a signature"),
        (f"text\n\n{LINE.replace('=', '')}".encode(), "not a signature"),
        (f"text\n\n{LINE.replace('example', 'exa' + chr(0) + 'mple')}".encode(), "not a signature"),
        ("text\n\n— name AAAA\n".encode(), "not a signature"),
        ("text\n\n— name \n".encode(), "not a signature"),
        (f"text\n\n{LINE}\r\n".encode(), "not a signature"),
        (f"text\n\n{LINE * (MOST_SIGNATURES + 1)}".encode(), "65 signatures"),
        (b"x" * (MOST_BYTES + 1), "read at most"),
        (b"\n" * MOST_BYTES, "no line feed at its end"),
    ],
)
def test_a_hostile_note_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(BadNote, match=fault):
        parse_note(data)


def test_sixteen_large_signatures_are_accepted() -> None:
    lines = "".join(f"— witness.example/{number} {base64_text(bytes(4936))}\n" for number in range(15))
    assert len(parse_note(f"{TEXT}\n{LINE}{lines}".encode()).signatures) == 16


def test_a_huge_text_costs_no_memory() -> None:
    huge = b"\n" * 50_000_000
    tracemalloc.start()
    with pytest.raises(BadNote):
        parse_note(huge)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_text_that_would_not_be_read_is_not_signed() -> None:
    for text in ("no line feed", "control\x07\n", "x" * MOST_BYTES + "\n"):
        with pytest.raises(BadNote):
            signed_note(text, [LOG_KEY])


def test_a_further_signature_replaces_the_one_before_by_the_same_key() -> None:
    first = WITNESS_KEY.sign(TEXT.encode(), NOON)
    second = WITNESS_KEY.sign(TEXT.encode(), NOON + 1)
    note = NOTE.with_signatures([first]).with_signatures([second])
    assert [one.at for one in verified(note, [LOG_KEY.verifier, WITNESS_KEY.verifier])] == [None, NOON + 1]


@given(st.integers(0, len(NOTE.data) * 8 - 1))
def test_no_flipped_bit_of_a_note_passes(bit: int) -> None:
    data = bytearray(NOTE.data)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadNote):
        verified(parse_note(bytes(data)), KEYS)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_note_or_refused(data: bytes) -> None:
    try:
        note = parse_note(data)
    except BadNote:
        return
    assert note.data == data
