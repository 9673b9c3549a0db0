from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import evenkeel
from evenkeel.engine.code import code_digest, code_version, read_code_digest, source_root, sources
from evenkeel.engine.session import package_zip


def digest_in(path: Path) -> str:
    code = "from evenkeel.engine.code import read_code_digest; print(read_code_digest())"
    answer = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(path)}, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def copy_of_the_package(folder: Path) -> Path:
    for name, file in sources():
        path = folder / "evenkeel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.read_bytes())
    return folder


def test_the_digest_is_that_of_the_files_wherever_they_lie(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path / "copy")
    archive = package_zip(tmp_path)
    assert digest_in(copy) == digest_in(archive) == read_code_digest()


def test_the_digest_sees_a_changed_a_renamed_and_a_new_file(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path)
    seen = [digest_in(copy)]
    path = copy / "evenkeel" / "handed.py"
    path.write_text("A = 1\n")
    seen.append(digest_in(copy))
    path.write_text("A = 2\n")
    seen.append(digest_in(copy))
    path.rename(copy / "evenkeel" / "over.py")
    seen.append(digest_in(copy))
    assert len(set(seen)) == 4


def test_what_python_leaves_behind_does_not_count(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path)
    before = digest_in(copy)
    (copy / "evenkeel" / "__pycache__").mkdir(exist_ok=True)
    (copy / "evenkeel" / "__pycache__" / "stray.py").write_text("")
    (copy / "evenkeel" / "notes.txt").write_text("")
    assert digest_in(copy) == before


def test_the_digest_is_a_sha256_and_stays_for_the_process() -> None:
    assert re.fullmatch("[0-9a-f]{64}", code_digest())
    assert code_digest() is code_digest()


def test_equal_code_is_shipped_as_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert package_zip(tmp_path / "one").read_bytes() == package_zip(tmp_path / "two").read_bytes()


def test_the_version_starts_with_the_packages_own() -> None:
    assert code_version().startswith(evenkeel.__version__)
    assert json.dumps(code_version())
    assert (source_root() / "evenkeel" / "__init__.py").is_file()
