"""One server writes a lake in a store: seen in small JVMs that commit by the server's own log store."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from evenkeel.errors import LakeError
from evenkeel.lake.one_writer import WRITER_FILE, demand_no_other, refusal_in, writer_of
from evenkeel.object_store import hand_over
from evenkeel.spark import file_systems
from evenkeel.spark.jars import OBJECT_STORE, locked_jars, resolve
from tests.object_store.conftest import NUMBERS
from tests.object_store.stores import Store
from tests.spark.small_jvms import frozen, running

pytestmark = pytest.mark.spark

LASTS_SECONDS = 8.0
PATIENCE_SECONDS = 90.0
OTHERS = "alice on host-7, server of /srv/evenkeel"


@dataclass(frozen=True)
class Server:
    """A JVM that commits."""

    gateway: Any
    home: Path

    @property
    def process(self) -> Any:
        return self.gateway.java_process

    def commit(self, lake: str, version: int) -> None:
        conf = self.gateway.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in file_systems.settings(self.home).items():
            conf.set(key.removeprefix("spark.hadoop."), value)
        path = self.gateway.jvm.org.apache.hadoop.fs.Path(f"{lake}/table/_delta_log/{version:020}.json")
        lines = self.gateway.jvm.java.util.ArrayList()
        lines.add(str(version))
        store = self.gateway.jvm.evenkeel.ObjectStoreCommits(conf)
        store.write(path, lines.iterator(), False, conf)

    def is_refused(self, lake: str, version: int) -> str:
        """In whose favour."""
        with pytest.raises(Py4JJavaError) as refused:
            self.commit(lake, version)
        return str(refusal_in(refused.value))

    def is_taken_over(self, lake: str, version: int) -> None:
        """Commits as soon as the one that has gone is no longer in the way."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.commit(lake, version)
            except Py4JJavaError as error:
                if refusal_in(error) is None or time.monotonic() > until:
                    raise
            time.sleep(0.2)


@pytest.fixture
def servers(
    store: Store, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Server]]:
    """Starts servers that say this of themselves, and hands the keys of the store to them and to this process."""
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def start(words: str) -> Server:
            home = tmp_path_factory.mktemp("home")
            hand_over(home, store.lake("any"))
            options = [f"-Devenkeel.writer={words}", f"-Devenkeel.lease.milliseconds={int(LASTS_SECONDS * 1000)}"]
            jars = resolve(locked_jars(OBJECT_STORE))
            made = running(tmp_path_factory.mktemp("classes"), jars, options)
            server = Server(stack.enter_context(made), home)
            server.commit(store.lake(f"warm-{next(NUMBERS)}"), 0)  # the first request of a JVM takes seconds
            return server

        yield start


def commits(store: Store, lake: str) -> list[str]:
    folder = store.folder / lake.removeprefix("s3a://") / "table" / "_delta_log"
    return [path.read_text().strip() for path in sorted(folder.glob("*.json"))]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_second_server_is_refused_with_the_name_of_the_first_until_that_is_gone(
    store: Store, servers: Callable[[str], Server]
) -> None:
    lake = store.lake("one-writer")
    others = ("bob on host-8", "carol on host-9")
    first, second, third = servers(OTHERS), *(servers(f"{one}, server of /srv/evenkeel") for one in others)
    assert writer_of(lake) is None
    first.commit(lake, 0)
    holder = writer_of(lake)
    assert holder is not None
    assert holder.words.startswith(f"{OTHERS}, process {first.process.pid}, since 20")
    assert holder.words.endswith(" unless it goes on")
    with pytest.raises(LakeError, match=f"{lake} is written by another server: {OTHERS}, .*EVENKEEL_HOME"):
        demand_no_other(lake, first.process.pid)  # which is of another machine
    assert f"{lake} is written by another server: {OTHERS}, process" in second.is_refused(lake, 1)
    time.sleep(1.5 * LASTS_SECONDS)  # it is renewed, though nothing is committed
    assert OTHERS in second.is_refused(lake, 1)

    with frozen(first.gateway):
        second.is_taken_over(lake, 1)
    assert "bob on host-8" in first.is_refused(lake, 2)
    assert commits(store, lake) == ["0", "1"]

    second.process.send_signal(signal.SIGTERM)  # it gives the lease back
    second.process.wait()
    assert writer_of(lake) is None
    first.commit(lake, 2)
    first.process.kill()
    first.process.wait()
    assert OTHERS in third.is_refused(lake, 3)
    third.is_taken_over(lake, 3)
    assert commits(store, lake) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param((b"mallory\nfor ever\n",), id="words"),
        pytest.param((b"", b"x" * 1_000_000, b"\xff\n\n"), id="others", marks=pytest.mark.exhaustive),
    ],
)
def test_a_server_of_this_machine_is_known_by_its_process_and_a_lease_that_is_removed_is_taken_again(
    store: Store, servers: Callable[[str], Server], texts: tuple[bytes, ...]
) -> None:
    lake = store.lake("own-writer")
    server = servers(f"alice on {os.uname().nodename}, server of /srv/evenkeel")
    server.commit(lake, 0)
    demand_no_other(lake, server.process.pid)
    with pytest.raises(LakeError, match="another server"):
        demand_no_other(lake, server.process.pid + 1)
    client = store.client()
    bucket, _, prefix = lake.removeprefix("s3a://").partition("/")
    key = f"{prefix}/{WRITER_FILE}"
    version = 0

    def goes_on() -> None:
        """It commits, and takes the lease again where it sees at a renewal that this was removed."""
        nonlocal version
        until = time.monotonic() + PATIENCE_SECONDS
        while writer_of(lake) is None and time.monotonic() < until:
            version += 1
            server.commit(lake, version)
            time.sleep(0.2)
        assert writer_of(lake) is not None

    client.delete_object(Bucket=bucket, Key=key)
    goes_on()
    # What no server puts keeps nobody away.
    for text in texts:
        client.put_object(Bucket=bucket, Key=key, Body=text)
        goes_on()
    assert commits(store, lake) == [str(number) for number in range(version + 1)]
