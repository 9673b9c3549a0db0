"""Checkpoints: the text of the spec, and nothing that merely resembles it."""

import pytest

from evenkeel.errors import BadNote, BadSignature
from evenkeel.transparency.merkle import EMPTY
from evenkeel.transparency.notes import Checkpoint, Note, open_checkpoint, parse_checkpoint, signed_note
from tests.transparency.logs import LOG_KEY, NOON, ORIGIN, OTHER_KEY, SECOND_WITNESS_KEY, WITNESS_KEY
from tests.transparency.reference_tree import root_of

# C2SP tlog-checkpoint (CC BY 4.0).
EXAMPLE = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
ROOT = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
CHECKPOINT = Checkpoint(ORIGIN, 3, root_of([b"a", b"b", b"c"]))
NOTE = signed_note(CHECKPOINT.text, [LOG_KEY])
LOG_KEYS, WITNESS_KEYS = [LOG_KEY.verifier], [WITNESS_KEY.verifier, SECOND_WITNESS_KEY.verifier]


@pytest.mark.parametrize("more", ["", "an extension\n", "one\ntwo three\n"])
def test_a_checkpoint_is_read_and_written_alike(more: str) -> None:
    found = parse_checkpoint(EXAMPLE + more)
    assert (found.origin, found.size) == ("example.com/behind-the-sofa", 20852163)
    assert found.extensions == tuple(more.split("\n")[:-1])
    assert found.text == EXAMPLE + more


def test_an_empty_tree_has_size_and_root_too() -> None:
    assert parse_checkpoint(Checkpoint("o", 0, EMPTY).text).size == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "three lines"),
        ("o\n3\n", "three lines"),
        (f"o\n3\n{ROOT}", "three lines"),
        (f"\n3\n{ROOT}\n", "none of its lines is empty"),
        (f"o\n3\n{ROOT}\n\n", "none of its lines is empty"),
        (f"o\n3\n{ROOT}\n\nmore\n", "none of its lines is empty"),
        (f"o\n03\n{ROOT}\n", "not a size: '03'"),
        (f"o\n+3\n{ROOT}\n", "not a size"),
        (f"o\n-3\n{ROOT}\n", "not a size"),
        (f"o\n3 \n{ROOT}\n", "not a size"),
        (f"o\n3_0\n{ROOT}\n", "not a size"),
        (f"o\n٣\n{ROOT}\n", r"not a size: '\\u0663'"),
        (f"o\n9223372036854775808\n{ROOT}\n", "not a size"),
        (f"o\n{'9' * 100_000}\n{ROOT}\n", "not a size"),
        ("o\n3\nAAAA\n", "not a root"),
        (f"o\n3\n{ROOT[:-1]}\n", "not a root"),
        (f"o\n3\n{ROOT.replace('/', '_')}\n", "not a root"),
        (f"o\n3\n{ROOT[:-2]}J=\n", "not a root"),
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str, fault: str) -> None:
    with pytest.raises(BadNote, match=fault):
        parse_checkpoint(text)


def test_a_checkpoint_counts_by_its_logs_signature_and_tells_who_cosigned() -> None:
    witnessed = NOTE.with_signatures([WITNESS_KEY.sign(NOTE.text.encode(), NOON + 5)])
    found = open_checkpoint(witnessed.data, ORIGIN, LOG_KEYS, WITNESS_KEYS)
    assert found.checkpoint == CHECKPOINT
    assert found.cosigned == {WITNESS_KEY.verifier: NOON + 5}
    assert open_checkpoint(witnessed.data, ORIGIN, LOG_KEYS).cosigned == {}


def test_a_witness_alone_or_another_log_vouches_for_nothing() -> None:
    only_witness = Note(NOTE.text, (WITNESS_KEY.sign(NOTE.text.encode(), NOON),))
    with pytest.raises(BadSignature, match="no signature by a known key of that log"):
        open_checkpoint(only_witness.data, ORIGIN, LOG_KEYS, WITNESS_KEYS)
    with pytest.raises(BadSignature, match="no known key"):
        open_checkpoint(NOTE.data, ORIGIN, [OTHER_KEY.verifier])
    with pytest.raises(BadNote, match=r"and not of 'example\.com/other'"):
        open_checkpoint(NOTE.data, "example.com/other", LOG_KEYS)


def test_a_cosignature_covers_extension_lines() -> None:
    text = f"{CHECKPOINT.text}an extension\n"
    extended = Note(text, (LOG_KEY.sign(text.encode()), WITNESS_KEY.sign(NOTE.text.encode(), NOON)))
    with pytest.raises(BadSignature, match=r"'witness\.example/1' is wrong"):
        open_checkpoint(extended.data, ORIGIN, LOG_KEYS, WITNESS_KEYS)
