"""`tools/check_proof.py`: run as a stranger runs it, and shown everything that a stranger may be shown."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import subprocess
import sys
import venv
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.lake.merkle import inclusion_proof, root_of
from evenkeel.transparency import proof_file
from evenkeel.transparency.keys import COSIGNATURE, ED25519, SignerKey, VerifierKey, base64_text
from evenkeel.transparency.leaf import LogLeaf, ProvenRow, TableRoot, cycle_leaf, prove_row
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.proof_file import MOST_PROOF_BYTES, ProofFile, prove
from tests.transparency.logs import (
    LOG_KEY,
    NOON,
    ORIGIN,
    OTHER_KEY,
    SECOND_WITNESS_KEY,
    WITNESS_KEY,
    entries_of,
    log_of,
)
from tools import check_proof

TOOL = Path(check_proof.__file__)
AT = "2026-11-26T12:00:00.000Z"
EARLIER = 1_700_000_000  # 2023-11-14 22:13:20 UTC
ROWS = [f'{{"bundle":"b{number}","cluster":"eu-1","cycle_at":"{AT}"}}' for number in range(50)]
WITNESSES = [WITNESS_KEY.verifier, SECOND_WITNESS_KEY.verifier]
KEYS = ["--log-key", LOG_KEY.verifier.text]
WITNESS_KEYS = [part for key in WITNESSES for part in ("--witness-key", key.text)]


def digests(rows: list[str]) -> list[bytes]:
    return [hashlib.sha256(row.encode()).digest() for row in rows]


def root(rows: list[str]) -> TableRoot:
    return TableRoot(len(rows), root_of(sorted(digests(rows))).hex())


def leaf_over(rows: list[str]) -> LogLeaf:
    tables = {"unload_decisions": root(rows), **{f"table_{number}": root(ROWS[:number]) for number in range(1, 14)}}
    return cycle_leaf("eu-1", 7, datetime(2026, 11, 26, 12, tzinfo=UTC), 1, "planned", "plan-1", "ab" * 32, tables)


def witnessed(log: TransparencyLog, *keys: SignerKey, at: int = EARLIER) -> None:
    under = log.checkpoint()
    log.add_cosignatures(under, [key.sign(under.note.text.encode(), at) for key in keys], WITNESSES)


def proof_of(
    leaf: LogLeaf,
    row: ProvenRow | None = None,
    *keys: SignerKey,
    at: int = EARLIER,
    before: int = 300,
    after: int = 400,
) -> bytes:
    """The proof of a leaf in a log with others before and after it."""
    log = log_of([*entries_of(before), leaf.text, *entries_of(after)])
    if keys:
        witnessed(log, *keys, at=at)
    return prove(log, before, leaf, row, WITNESSES).data


LEAF = leaf_over(ROWS)
ROW = prove_row(LEAF, "unload_decisions", ROWS[17], digests(ROWS))
PROOF = proof_of(LEAF, ROW, WITNESS_KEY, SECOND_WITNESS_KEY)


def run(folder: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "p.tlog-proof").write_bytes(data)
    command = [sys.executable, "-I", str(TOOL), str(folder / "p.tlog-proof"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)


def checked(data: bytes, at_least: int = 2, log_key: SignerKey = LOG_KEY) -> str:
    """What the tool says of a proof, or the one line with the fault."""
    log_keys = [check_proof.Key(log_key.verifier.text, check_proof.LOG)]
    witness_keys = [check_proof.Key(key.text, check_proof.WITNESS) for key in WITNESSES]
    try:
        return "\n".join(check_proof.check(data, log_keys, witness_keys, at_least))
    except check_proof.Wrong as error:
        found = f"NOT PROVEN: {error}"
    assert "\n" not in found
    assert found.isascii()
    return found


def test_it_says_what_is_proven_by_whom_and_as_of_when(tmp_path: Path) -> None:
    done = run(tmp_path, PROOF, *KEYS, *WITNESS_KEYS)
    assert (done.returncode, done.stderr) == (0, "")
    size, text = json.loads(LEAF.text), done.stdout
    assert text.startswith(f"PROVEN.\nThe row {ROW.index} of 50 of the table 'unload_decisions':\n    {ROWS[17]}\n")
    assert f"The leaf 300 of the log '{ORIGIN}':" in text
    for name, value in size.items():
        assert f"    {name}: {json.dumps(value)}\n" in text
    assert "It is in the log at 701 leaves, root " in text
    assert f"signed by '{ORIGIN}' (key {LOG_KEY.verifier.key_id.hex()})" in text
    for key in WITNESSES:
        seen = f"the witness '{key.name}' (key {key.key_id.hex()}), who saw it at 2023-11-14 22:13:20 UTC"
        assert f"cosigned by {seen}" in text


def test_without_witnesses_it_says_what_that_leaves_open(tmp_path: Path) -> None:
    done = run(tmp_path, PROOF, *KEYS)
    assert done.returncode == 0
    assert done.stdout.endswith(
        "No witness vouches for it: that all see one log, and since when, is the log's word alone.\n"
    )


def test_a_leaf_is_proven_without_a_row(tmp_path: Path) -> None:
    done = run(tmp_path, proof_of(LEAF), *KEYS)
    assert done.returncode == 0
    assert done.stdout.startswith("PROVEN.\nThe leaf 300 of")


@pytest.mark.parametrize(
    ("keys", "given", "at_least", "status"),
    [
        ([WITNESS_KEY], 2, None, 1),
        ([WITNESS_KEY], 2, 1, 0),
        ([WITNESS_KEY], 1, None, 0),
        ([WITNESS_KEY, SECOND_WITNESS_KEY], 2, 2, 0),
        ([], 2, 0, 0),
        ([], 1, None, 1),
        ([WITNESS_KEY, WITNESS_KEY], 2, 2, 1),
    ],
)
def test_as_many_witnesses_as_asked_for_have_cosigned(
    tmp_path: Path, keys: list[SignerKey], given: int, at_least: int | None, status: int
) -> None:
    asked = [] if at_least is None else ["--at-least", str(at_least)]
    done = run(tmp_path, proof_of(LEAF, ROW, *keys), *KEYS, *WITNESS_KEYS[: given * 2], *asked)
    assert done.returncode == status
    if status:
        assert done.stdout.startswith("NOT PROVEN: ")
        assert "of the witnesses that you named have cosigned, and" in done.stdout
        assert done.stdout.count("\n") == 1


def test_a_key_is_no_witness_twice_and_a_log_not_its_own(tmp_path: Path) -> None:
    again = VerifierKey("witness.example/other", COSIGNATURE, WITNESS_KEY.verifier.public)
    own = VerifierKey("witness.example/own", COSIGNATURE, LOG_KEY.verifier.public)
    for key in (again, own, WITNESS_KEY.verifier):
        done = run(tmp_path, PROOF, *KEYS, *WITNESS_KEYS, "--witness-key", key.text)
        assert done.returncode == 2
        assert "no public key may be given twice" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--log-key", "nonsense"],
        ["--log-key", LOG_KEY.verifier.text[:-1]],
        ["--log-key", LOG_KEY.verifier.text.replace("example", "ехample")],
        ["--log-key", WITNESS_KEY.verifier.text],
        [*KEYS, "--witness-key", LOG_KEY.verifier.text],
        [*KEYS, "--at-least", "1"],
        [*KEYS, *WITNESS_KEYS, "--at-least", "3"],
        [*KEYS, *WITNESS_KEYS, "--at-least", "-1"],
        [*KEYS, "--log-key", SignerKey("example.com/other", ED25519, bytes(32)).verifier.text],
        [*KEYS, "--unknown"],
    ],
)
def test_wrong_usage_is_told_as_such(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, PROOF, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_private_key_given_by_mistake_is_not_shown(tmp_path: Path) -> None:
    done = run(tmp_path, PROOF, "--log-key", LOG_KEY.secret().reveal())
    assert done.returncode == 2
    assert LOG_KEY.secret().reveal().rpartition("+")[2] not in done.stderr + done.stdout


def test_a_proof_that_is_not_there_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-I", str(TOOL), str(tmp_path / "none"), *KEYS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "No such file" in done.stderr


def test_a_rotated_log_key_is_one_of_several(tmp_path: Path) -> None:
    done = run(tmp_path, PROOF, "--log-key", OTHER_KEY.verifier.text, *KEYS)
    assert done.returncode == 0
    done = run(tmp_path, PROOF, "--log-key", OTHER_KEY.verifier.text)
    assert (done.returncode, done.stdout[:38]) == (1, f"NOT PROVEN: no signature by '{ORIGIN}'"[:38])


def test_no_flipped_bit_anywhere_passes() -> None:
    chance = random.Random(17)
    assert checked(PROOF).startswith("PROVEN.")
    for place in range(len(PROOF)):
        data = bytearray(PROOF)
        data[place] ^= 1 << chance.randrange(8)
        assert checked(bytes(data)).startswith("NOT PROVEN: "), (place, bytes(data))


def test_no_cut_and_no_doubled_or_missing_line_passes() -> None:
    for length in range(0, len(PROOF), 7):
        assert checked(PROOF[:length]).startswith("NOT PROVEN: ")
    lines = PROOF.splitlines(keepends=True)
    cosignatures = range(len(lines) - 2, len(lines))
    for number, line in enumerate(lines):
        doubled = b"".join([*lines[:number], line, *lines[number:]])
        if number not in cosignatures and not line.startswith("— ".encode()):
            assert checked(doubled).startswith("NOT PROVEN: "), line
        assert checked(b"".join(lines[:number] + lines[number + 1 :])).startswith("NOT PROVEN: "), line


def with_extra(change: dict[str, object], data: bytes = PROOF) -> bytes:
    """The proof with parts of `extra` replaced: {"row.index": 3}."""
    proof = ProofFile.read(data)
    extra = json.loads(proof.extra)
    for path, value in change.items():
        *above, name = path.split(".")
        place = extra
        for one in above:
            place = place[one]
        if value is None:
            del place[name]
        else:
            place[name] = value
    return ProofFile(proof.index, proof.path, proof.checkpoint, json.dumps(extra).encode()).data


DEEP: object = []
for _ in range(500):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "change",
    [
        {"row.text": ROWS[18]},
        {"row.text": ROWS[17] + " "},
        {"row.index": 18},
        {"row.index": -1},
        {"row.index": 50},
        {"row.index": True},
        {"row.index": "1"},
        {"row.index": 1.0},
        {"row.index": 10**400},
        {"row.path": []},
        {"row.path": None},
        {"row.path": [1]},
        {"row.path": DEEP},
        {"row.path": "AAAA"},
        {"row": None},
        {"row": []},
        {"row": DEEP},
        {"table": None},
        {"table.rows": 51},
        {"table.rows": 0},
        {"table.root": "00" * 32},
        {"table.name": "placement_decisions"},
        {"table.name": "unload_decisiоns"},
        {"table.name": "\ud800"},
        {"table.index": 0},
        {"table.path": [base64_text(bytes(32))] * 64},
        {"header": None},
        {"header": "{}"},
        {"header": LEAF.text.decode() + " "},
        {"header": "\ud800"},
        {"header": {}},
    ],
)
def test_what_nobody_signed_counts_only_as_far_as_it_leads_to_what_was_signed(change: dict[str, object]) -> None:
    assert checked(with_extra(change)).startswith("NOT PROVEN: ")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "the first line"),
        (b"\0" * 100, "control character"),
        (PROOF.replace(b"\n", b"\r\n"), "control character"),
        (PROOF.replace(b"index", b"index\0"), "control character"),
        (PROOF + b"\xff", "not UTF-8"),
        (b"x" * (MOST_PROOF_BYTES + 1), "larger than a proof"),
        (PROOF + b"\n" * MOST_PROOF_BYTES, "larger than a proof"),
        (PROOF.replace(b"proof@v1", b"proof@v2"), "the first line"),
        (PROOF.replace(b"index 300", b"index 0300"), "index is not a number"),
        (PROOF.replace(b"index 300", "index ٣".encode()), "index is not a number"),
        (PROOF.replace(b"index 300", b"index " + b"9" * 5000), "index is not a number"),
        (PROOF.replace(b"extra ", b"Extra "), "the second line"),
        (PROOF.replace(b"extra ", b"extra  "), "extra is not base64"),
        (PROOF.replace(b"\n701\n", b"\n0701\n"), "not right"),
        (PROOF.replace("—".encode(), b"-"), "not a signature"),
        (PROOF.replace("— example".encode(), "— ехample".encode()), "no signature by 'example"),
        (PROOF + "— x AAAA\n".encode(), "not a signature"),
        (PROOF + "— stranger.example/1 AAAAAAAA\n".encode() * 64, "1 to 64 signatures"),
    ],
)
def test_hostile_files_are_refused_in_one_line(data: bytes, fault: str) -> None:
    found = checked(data)
    assert found.startswith("NOT PROVEN: ")
    assert fault in found


@pytest.mark.parametrize(
    "extra", ["[" * 200_000, '{"a":' * 100_000, '{"header":1e999}', '{"header":"a","header":"b"}', "null"]
)
def test_an_extra_that_is_no_plain_object_is_refused(extra: str) -> None:
    proof = ProofFile.read(PROOF)
    data = ProofFile(proof.index, proof.path, proof.checkpoint, extra.encode()).data
    assert checked(data).startswith("NOT PROVEN: ")


def test_signatures_of_strangers_are_passed_over() -> None:
    stranger = SignerKey.make("stranger.example/1", COSIGNATURE).sign(b"x", 1).line.encode()
    assert checked(PROOF + stranger * 3).startswith("PROVEN.")


def test_a_cosignature_of_the_future_is_refused() -> None:
    future = int(datetime.now(UTC).timestamp()) + 3600
    found = checked(proof_of(LEAF, ROW, WITNESS_KEY, SECOND_WITNESS_KEY, at=future))
    assert "of a time in the future" in found
    assert "of a time in the future" in checked(proof_of(LEAF, ROW, WITNESS_KEY, at=(1 << 63) - 1), at_least=1)


def signed_by_a_hostile_log(header: str, row: str | None = None) -> bytes:
    """A proof that holds, of whatever its operator likes to log."""
    log = log_of([])
    table = root([row or ""])
    entry = json.dumps(["t", table.rows, table.root], separators=(",", ":")).encode()
    text = header.replace("ROOT", root_of([entry]).hex())
    log.append([text.encode(errors="surrogatepass")])
    extra: dict[str, object] = {"header": text}
    if row is not None:
        extra["table"] = {"name": "t", "rows": 1, "root": table.root, "index": 0, "path": []}
        extra["row"] = {"text": row, "index": 0, "path": []}
    return ProofFile(0, (), log.checkpoint().note.data, json.dumps(extra).encode()).data


def test_what_a_hostile_log_says_reaches_no_terminal() -> None:
    header = json.dumps({"tables": 1, "tables_root": "ROOT", "\x1b[2J\u202e": "PROVEN\n\x9b\x7f"}, ensure_ascii=False)
    found = checked(signed_by_a_hostile_log(header, '{"a":"é\u202e\x7f\U0001f6a2"}'), at_least=0)
    assert found.startswith("PROVEN.\nThe row 0 of 1 of the table 't':\n    " + r'{"a":"\u00e9\u202e\u007f\u1f6a2"}')
    assert all(" " <= sign <= "~" for line in found.split("\n") for sign in line)


@pytest.mark.parametrize(
    ("header", "row", "fault"),
    [
        (
            '{"cluster":"eu-2","tables":1,"tables_root":"ROOT"}',
            '{"cluster":"eu-1"}',
            "of another cluster than the header",
        ),
        ('{"cycle_at":"2026","tables":1,"tables_root":"ROOT"}', '{"cycle_at":"2027"}', "of another cycle_at than"),
        ('{"tables":1,"tables_root":"ROOT"}', "[]", "the row is not a JSON object"),
        ('{"tables":1,"tables_root":"ROOT"}', '{"a":1,"a":2}', "or has a name twice"),
        ('{"tables":2,"tables_root":"ROOT"}', "{}", "from the table to the header: the path is too short"),
        ('{"tables_root":"ROOT"}', "{}", "the header lacks tables"),
        ('{"a":"1","a":"2"}', None, "or has a name twice"),
        ('{"a":{"b":1}}', None, "more than texts and numbers"),
        ("[1]", None, "the header is not a JSON object"),
        ("[" * 10_000, None, "the header is not a JSON object"),
    ],
)
def test_a_leaf_that_says_two_things_proves_none(header: str, row: str | None, fault: str) -> None:
    found = checked(signed_by_a_hostile_log(header, row), at_least=0)
    assert found.startswith("NOT PROVEN: ")
    assert fault in found


@pytest.mark.parametrize("before", [0, 1, 2, 255, 256, 300])
@pytest.mark.parametrize("after", [0, 1, 255, 700])
def test_proofs_hold_at_any_place_of_any_log(before: int, after: int) -> None:
    for rows in (1, 2, 3, 50):
        leaf = leaf_over(ROWS[:rows])
        row = prove_row(leaf, "unload_decisions", ROWS[rows - 1], digests(ROWS[:rows]))
        proof = proof_of(leaf, row, WITNESS_KEY, SECOND_WITNESS_KEY, before=before, after=after)
        assert checked(proof).startswith("PROVEN.")
        assert ProofFile.read(proof).data == proof


def test_a_proof_is_short() -> None:
    """A million rows, in a log of a year of minutes: as long as the paths would be, and a row beside it."""
    path = tuple(bytes([number]) * 32 for number in range(20))
    row = ProvenRow("unload_decisions", 10**6, "ab" * 32, 3, path[:5], ROWS[0], 10**6 - 1, path)
    note = log_of([]).checkpoint().note
    more = note.with_signatures(key.sign(b"x", NOON) for key in (WITNESS_KEY, SECOND_WITNESS_KEY))
    whole = ProofFile(525_599, path, more.data, proof_file._extra(LEAF, row)).data
    assert len(whole) - len(ROWS[0]) < 5_000


def test_a_proof_leads_to_the_newest_cosigned_checkpoint_that_covers_it() -> None:
    log = log_of([LEAF.text])
    witnessed(log, WITNESS_KEY)
    later = LogLeaf("upkeep", {"cluster": "eu-1"})
    log.append([later.text])
    assert b"\n1\n" in prove(log, 0, LEAF, None, WITNESSES).checkpoint
    assert b"\n2\n" in prove(log, 1, later, None, WITNESSES).checkpoint
    with pytest.raises(LogError, match="another leaf at 1"):
        prove(log, 1, LEAF)
    with pytest.raises(LogError, match="no leaf 2"):
        prove(log, 2, LEAF)


def test_a_file_that_is_no_proof_is_not_read() -> None:
    for data in (b"", PROOF[1:], PROOF.replace(b"index ", b"Index "), PROOF[:300], b"x" * (MOST_PROOF_BYTES + 1)):
        with pytest.raises(BadNote):
            ProofFile.read(data)
    with pytest.raises(BadInput, match="its row is large"):
        _ = ProofFile(0, (), b"x", bytes(MOST_PROOF_BYTES)).data


def test_it_stands_alone() -> None:
    source = TOOL.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300
    found = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [one.name for one in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        )
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert found - sys.stdlib_module_names == {"cryptography"}
    loaded = "import sys, runpy; sys.argv = ['x', '-h']\ntry: runpy.run_path(sys.orig_argv[-1], run_name='__main__')\n"
    loaded += "except SystemExit: print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-c", loaded, str(TOOL)], capture_output=True, text=True, timeout=60)
    names = set(done.stdout.rpartition("LOADED ")[2].split())
    assert "cryptography" in names
    assert not names & {"evenkeel", "pyspark", "deltalake", "pyarrow", "airflow", "numpy"}


def test_an_environment_with_cryptography_alone_is_enough(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    for name in ("cryptography", "cffi"):  # which needs the other one
        found = distribution(name)
        for top in {Path(str(file)).parts[0] for file in found.files or () if not str(file).startswith("..")}:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    python = str(tmp_path / "env" / "bin" / "python")
    for other in ("evenkeel", "pyspark"):
        assert subprocess.run([python, "-I", "-c", f"import {other}"], capture_output=True, timeout=60).returncode == 1
    (tmp_path / "p.tlog-proof").write_bytes(PROOF)
    command = [python, "-I", str(TOOL), str(tmp_path / "p.tlog-proof"), *KEYS, *WITNESS_KEYS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stderr, done.stdout.partition("\n")[0]) == (0, "", "PROVEN.")


def test_its_proofs_of_inclusion_are_those_of_the_room() -> None:
    entries = entries_of(37)
    for size in range(1, 38):
        for index in range(size):
            path = inclusion_proof(entries[:size], index)
            assert check_proof.root_by(entries[index], index, size, path, "x") == root_of(entries[:size])
