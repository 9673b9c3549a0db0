"""`tools/check_proof.py`: run as a stranger runs it, and shown everything that a stranger may be shown."""

import ast
import hashlib
import json
import random
import subprocess
import sys
import venv
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.handover import Commit, DataFile
from evenkeel.transparency.keys import COSIGNATURE, SignerKey, VerifierKey
from evenkeel.transparency.leaves import CommitLeaf
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.proof_file import MOST_PROOF_BYTES, ProofFile, prove
from tests.transparency.logs import (
    LOG_KEY,
    ORIGIN,
    OTHER_KEY,
    SECOND_WITNESS_KEY,
    WITNESS_KEY,
    CosigningKey,
    entries_of,
    log_of,
)
from tests.transparency.reference_tree import root_of
from tools import check_proof

TOOL = Path(check_proof.__file__)
EARLIER = 1_700_000_000  # 2023-11-14 22:13:20 UTC
WITNESSES = [WITNESS_KEY.verifier, SECOND_WITNESS_KEY.verifier]
KEYS = ["--log-key", LOG_KEY.verifier.text]
WITNESS_KEYS = [part for key in WITNESSES for part in ("--witness-key", key.text)]
CONTENT = b"a Parquet file"
PATH = "cluster=eu-1/cycle_date=2026-11-26/part-7.parquet"
FILES = [
    DataFile(PATH, len(CONTENT), hashlib.sha256(CONTENT).hexdigest()),
    *(DataFile(f"cluster=eu-{number}/part-\u00e9.parquet", number, f"{number:064x}") for number in range(2, 14)),
]
COMMIT = Commit("unload_decisions", 12, "ab" * 32, tuple(FILES))
LEAF = CommitLeaf.of(COMMIT, datetime(2026, 11, 26, 12, tzinfo=UTC))


def witnessed(log: TransparencyLog, *keys: CosigningKey, at: int = EARLIER) -> None:
    under = log.checkpoint()
    log.add_cosignatures(under, [key.sign(under.note.text.encode(), at) for key in keys], WITNESSES)


def proof_of(
    *keys: CosigningKey, files: list[DataFile] = FILES, at: int = EARLIER, before: int = 300, after: int = 400
) -> bytes:
    """The proof of a commit's first file in a log with other leaves before and after it."""
    leaf = CommitLeaf.of(replace(COMMIT, files=tuple(files)), LEAF.moment)
    log = log_of([*entries_of(before), leaf.text, *entries_of(after)])
    if keys:
        witnessed(log, *keys, at=at)
    return prove(log, before, leaf, files, files[0].path, WITNESSES).data


PROOF = proof_of(WITNESS_KEY, SECOND_WITNESS_KEY)


def run(folder: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "p.tlog-proof").write_bytes(data)
    command = [sys.executable, "-I", str(TOOL), str(folder / "p.tlog-proof"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)


def checked(data: bytes, at_least: int = 2, log_key: SignerKey = LOG_KEY, file: Path | None = None) -> str:
    """What the tool says of a proof, or the one line with the fault."""
    log_keys = [check_proof.Key(log_key.verifier.text, check_proof.LOG)]
    witness_keys = [check_proof.Key(key.text, check_proof.WITNESS) for key in WITNESSES]
    given = None if file is None else str(file)
    try:
        return "\n".join(map(check_proof.on_screen, check_proof.check(data, given, log_keys, witness_keys, at_least)))
    except check_proof.Wrong as error:
        found = f"NOT PROVEN: {error}"
    assert "\n" not in found
    assert found.isascii()
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file.parquet").write_bytes(CONTENT)
    return tmp_path / "file.parquet"


def test_it_says_what_is_proven_by_whom_and_as_of_when(tmp_path: Path, file: Path) -> None:
    done = run(tmp_path, PROOF, str(file), *KEYS, *WITNESS_KEYS)
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    head = f"PROVEN.\n'{file}' is byte for byte the file\n    '{PATH}'\n    14 bytes, SHA-256 {FILES[0].digest}\n"
    assert text.startswith(head)
    assert f"It was added by the commit in leaf 300 of the log '{ORIGIN}':" in text
    for name, value in json.loads(LEAF.text).items():
        assert f"    {name}: {json.dumps(value)}\n" in text
    assert "The leaf is in the log at 701 leaves, root " in text
    assert f"signed by '{ORIGIN}' (key {LOG_KEY.verifier.key_id.hex()})" in text
    for key in WITNESSES:
        seen = f"the witness '{key.name}' (key {key.key_id.hex()}), who saw it at 2023-11-14 22:13:20 UTC"
        assert f"cosigned by {seen}" in text


def test_without_witnesses_or_the_file_it_says_what_that_leaves_open(tmp_path: Path) -> None:
    done = run(tmp_path, PROOF, *KEYS)
    assert done.returncode == 0
    assert "The file below, which was not given" in done.stdout
    assert done.stdout.endswith(
        "No witness vouches for it: that all see one log, and since when, is the log's word alone.\n"
    )


@pytest.mark.parametrize("content", [CONTENT + b"x", CONTENT[:-1] + b"E", b""])
def test_another_file_is_not_proven(tmp_path: Path, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    done = run(tmp_path, PROOF, str(file), *KEYS)
    assert done.returncode == 1
    assert done.stdout.startswith("NOT PROVEN: ")
    assert "is not the file of the list" in done.stdout
    file.unlink()
    assert run(tmp_path, PROOF, str(file), *KEYS).returncode == 1


def test_rows_are_printed_once_the_file_is_proven(tmp_path: Path, file: Path) -> None:
    rows = [{"subject": f"b{number % 2}", "share": number / 4, "sentence": "é\x1b[2J"} for number in range(5)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    data = file.read_bytes()
    own = DataFile("part.parquet", len(data), hashlib.sha256(data).hexdigest())
    proof = proof_of(files=[own])
    done = run(tmp_path, proof, str(file), *KEYS, "--where", "subject=b0", "--where", "share=1.0")
    assert done.returncode == 0
    assert '1 of its rows have these values:\n    {"sentence": "\\u00e9\\u001b[2J", "share": 1.0' in done.stdout
    assert "0 of its rows" in run(tmp_path, proof, str(file), *KEYS, "--where", "subject=b7").stdout
    done = run(tmp_path, proof, str(file), *KEYS, "--where", "colour=red")
    assert (done.returncode, "has no column 'colour'" in done.stdout) == (1, True)
    assert run(tmp_path, proof, *KEYS, "--where", "subject=b0").returncode == 2


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
    tmp_path: Path, keys: list[CosigningKey], given: int, at_least: int | None, status: int
) -> None:
    asked = [] if at_least is None else ["--at-least", str(at_least)]
    done = run(tmp_path, proof_of(*keys), *KEYS, *WITNESS_KEYS[: given * 2], *asked)
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
        [*KEYS, "--log-key", SignerKey("example.com/other", bytes(32)).verifier.text],
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
    """The proof with parts of `extra` replaced, or removed where the value is None."""
    proof = ProofFile.read(data)
    extra = {**json.loads(proof.extra or b""), **change}
    extra = {name: value for name, value in extra.items() if value is not None}
    return ProofFile(proof.index, proof.path, proof.checkpoint, json.dumps(extra).encode()).data


DEEP: object = []
for _ in range(500):
    DEEP = [DEEP]
LISTED = [[file.path, file.size, file.digest] for file in sorted(FILES, key=lambda file: file.path)]


@pytest.mark.parametrize(
    "change",
    [
        {"file": None},
        {"file": 7},
        {"file": "part.parquet"},
        {"file": "\ud800"},
        {"files": None},
        {"files": {}},
        {"files": []},
        {"files": DEEP},
        {"files": LISTED[1:]},
        {"files": LISTED[::-1]},
        {"files": [[PATH, len(CONTENT), "ab" * 32], *LISTED[1:]]},
        {"files": [*LISTED, ["more.parquet", 1, "ab" * 32]]},
        {"files": [[*LISTED[0], 1], *LISTED[1:]]},
        {"files": [[LISTED[0][0], float(LISTED[0][1]), LISTED[0][2]], *LISTED[1:]]},
        {"leaf": None},
        {"leaf": "{}"},
        {"leaf": LEAF.text.decode() + " "},
        {"leaf": LEAF.text.decode().replace('"commit":12', '"commit":13')},
        {"leaf": "\ud800"},
        {"leaf": {}},
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
    "extra", ["[" * 200_000, '{"a":' * 100_000, '{"leaf":1e999}', '{"leaf":"a","leaf":"b"}', "null"]
)
def test_an_extra_that_is_no_plain_object_is_refused(extra: str) -> None:
    proof = ProofFile.read(PROOF)
    data = ProofFile(proof.index, proof.path, proof.checkpoint, extra.encode()).data
    assert checked(data).startswith("NOT PROVEN: ")


def test_signatures_of_strangers_are_passed_over() -> None:
    stranger = CosigningKey("stranger.example/1", bytes(32)).sign(b"x", 1).line.encode()
    assert checked(PROOF + stranger * 3).startswith("PROVEN.")


def test_a_cosignature_of_the_future_is_refused() -> None:
    future = int(datetime.now(UTC).timestamp()) + 3600
    found = checked(proof_of(WITNESS_KEY, SECOND_WITNESS_KEY, at=future))
    assert "of a time in the future" in found
    assert "of a time in the future" in checked(proof_of(WITNESS_KEY, at=(1 << 63) - 1), at_least=1)


def signed_by_a_hostile_log(leaf: str, files: list[object]) -> bytes:
    """A proof that holds, of whatever its operator likes to log."""
    log = log_of([])
    text = json.dumps(files, separators=(",", ":")).encode()
    own = leaf.replace("DIGEST", hashlib.sha256(text).hexdigest())
    log.append([own.encode(errors="surrogatepass")])
    extra = {"leaf": own, "files": files, "file": "x"}
    return ProofFile(0, (), log.checkpoint().note.data, json.dumps(extra).encode()).data


OWN = '"kind":"commit","files":1,"files_digest":"DIGEST"'


def test_what_a_hostile_log_says_reaches_no_terminal() -> None:
    leaf = json.dumps({"\x1b[2J\u202e": "PROVEN\n\x9b\x7f"}, ensure_ascii=False)[:-1] + f",{OWN}}}"
    found = checked(signed_by_a_hostile_log(leaf, [["x", "\u202e\n", "\x1b\U0001f6a2"]]), at_least=0)
    assert found.startswith("PROVEN.\n")
    assert r"\u202e\u000a bytes, SHA-256 \u001b\u1f6a2" in found
    assert all(" " <= sign <= "~" for line in found.split("\n") for sign in line)


@pytest.mark.parametrize(
    ("leaf", "files", "fault"),
    [
        (f"{{{OWN}}}", [], "is not that of the leaf"),
        (f"{{{OWN}}}", [["y", 1, "ab"]], "has not one file 'x'"),
        (f"{{{OWN}}}", [["x", 1]], "has not one file 'x'"),
        (f"{{{OWN}}}", ["x"], "has not one file 'x'"),
        (OWN.replace("1", "2").join("{}"), [["x", 1, "ab"], ["x", 2, "cd"]], "has not one file 'x'"),
        (f'{{{OWN},"a":"1","a":"2"}}', [["x", 1, "ab"]], "or has a name twice"),
        (f'{{{OWN},"a":{{"b":1}}}}', [["x", 1, "ab"]], "more than texts and numbers"),
        (f"{{{OWN}}}".replace("commit", "keys"), [["x", 1, "ab"]], "not one of a commit"),
        ("[1]", [["x", 1, "ab"]], "the leaf is not a JSON object"),
        ("[" * 10_000, [["x", 1, "ab"]], "the leaf is not a JSON object"),
    ],
)
def test_a_leaf_that_says_two_things_proves_none(leaf: str, files: list[object], fault: str) -> None:
    found = checked(signed_by_a_hostile_log(leaf, files), at_least=0)
    assert found.startswith("NOT PROVEN: ")
    assert fault in found


@pytest.mark.parametrize("before", [0, 1, 2, 255, 256, 300])
@pytest.mark.parametrize("after", [0, 1, 255, 700])
def test_proofs_hold_at_any_place_of_any_log(before: int, after: int) -> None:
    proof = proof_of(WITNESS_KEY, SECOND_WITNESS_KEY, before=before, after=after)
    assert checked(proof).startswith("PROVEN.")
    assert ProofFile.read(proof).data == proof


def test_a_proof_leads_to_the_newest_cosigned_checkpoint_that_covers_it() -> None:
    log = log_of([LEAF.text])
    witnessed(log, WITNESS_KEY)
    later = CommitLeaf.of(replace(COMMIT, version=13), LEAF.moment)
    log.append([later.text])
    assert b"\n1\n" in prove(log, 0, LEAF, FILES, PATH, WITNESSES).checkpoint
    assert b"\n2\n" in prove(log, 1, later, FILES, PATH, WITNESSES).checkpoint
    with pytest.raises(LogError, match="another leaf at 1"):
        prove(log, 1, LEAF, FILES, PATH)
    with pytest.raises(LogError, match="no leaf 2"):
        prove(log, 2, LEAF, FILES, PATH)
    for files, path in ((FILES[1:], FILES[1].path), (FILES, "part.parquet")):
        with pytest.raises(LogError, match="the files are not those that leaf 0 holds of version 12"):
            prove(log, 0, LEAF, files, path)


def test_a_file_that_is_no_proof_is_not_read() -> None:
    for data in (b"", PROOF[1:], PROOF.replace(b"index ", b"Index "), PROOF[:300], b"x" * (MOST_PROOF_BYTES + 1)):
        with pytest.raises(BadNote):
            ProofFile.read(data)
    with pytest.raises(BadInput, match="its commit has many files"):
        _ = ProofFile(0, (), b"x", bytes(MOST_PROOF_BYTES)).data


def test_it_stands_alone() -> None:
    source = TOOL.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 340
    found = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [one.name for one in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        )
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert found - sys.stdlib_module_names == {"cryptography", "pyarrow"}, "the latter where it is there"
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
    tree = log_of(entries).tree()
    for size in range(1, 38):
        for index in range(size):
            path = tree.inclusion(index, size)
            assert check_proof.root_by(entries[index], index, size, path, "x") == root_of(entries[:size])
