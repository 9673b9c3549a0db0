"""The lock of a lake as others see it, held here by a process in the server's place; what the JVM does is told in
`tests/spark/test_local_files`."""

import sys
from pathlib import Path

import pytest

from evenkeel.errors import LakeError
from evenkeel.lake.one_writer import WRITER_FILE, demand_no_other, refusal_in, writer_of
from tests.lake.lock_holder import held

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of Linux only")


def test_the_holder_is_told_while_it_lives(tmp_path: Path) -> None:
    assert writer_of(str(tmp_path)) is None
    with held(tmp_path) as pid:
        for root in (str(tmp_path), f"file://{tmp_path}"):
            found = writer_of(root)
            assert found is not None
            assert (found.pid, found.words) == (pid, "alice on host-7, server of /srv/evenkeel, process 1")
    assert (tmp_path / WRITER_FILE).read_text().startswith("alice")
    assert writer_of(str(tmp_path)) is None


def test_a_holder_that_said_nothing_is_told_by_its_process(tmp_path: Path) -> None:
    with held(tmp_path, "") as pid:
        found = writer_of(str(tmp_path))
        assert found is not None
        assert found.words == f"process {pid}"


def test_only_another_server_is_in_the_way(tmp_path: Path) -> None:
    demand_no_other(str(tmp_path), None)
    with held(tmp_path) as pid:
        demand_no_other(str(tmp_path), pid)
        for own in (None, pid + 1):
            with pytest.raises(LakeError, match=r"written by another server: alice on host-7.*EVENKEEL_SPARK"):
                demand_no_other(str(tmp_path), own)
    demand_no_other(str(tmp_path), None)


def test_a_refusal_is_found_in_what_spark_says_and_in_nothing_else() -> None:
    said = (
        "[DELTA_X] (java.io.IOException) The lake /l is written by another server: bob on h.example.org, server of "
        "/s.v, process 7, since 2026-11-26T10:00:00Z. Nothing was committed: let this\n\tat evenkeel.Java"
    )
    found = refusal_in(RuntimeError(said))
    assert str(found).startswith(
        "The lake /l is written by another server: bob on h.example.org, server of /s.v, process 7, since "
        "2026-11-26T10:00:00Z. Nothing was written: "
    )
    assert "\n" not in str(found)
    assert refusal_in(RuntimeError("The lake is dry")) is None
