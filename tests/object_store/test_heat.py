"""Heat of a lake in a store: the same blocks and pictures as in a folder, and two builders do no harm."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.heat import build, picture
from tests.heat.histories import BEGIN, CLUSTER, HALVES, History, cells, load, marks
from tests.object_store.conftest import NUMBERS
from tests.object_store.stores import Store

pytestmark = pytest.mark.slow


def test_heat_in_a_store_is_what_it_is_in_a_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    made = History(tmp_path / "lake")
    with made.lake.one_commit():
        for minute in range(0, 30, 10):
            made.cycle(minute, [load("acme/a", one, 5.0, f"b{minute % 20}") for one in HALVES])
    prefix, client = f"heat-{next(NUMBERS)}", store.client()
    for file in made.root.rglob("*"):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(made.root).as_posix()}"
            client.put_object(Bucket=store.bucket, Key=key, Body=file.read_bytes())
    there = f"s3a://{store.bucket}/{prefix}"
    with pytest.raises(BadInput, match="no heat was built"):
        picture(there, CLUSTER, BEGIN, BEGIN + timedelta(hours=1), "topics")
    build(str(made.root))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: build(there), range(2)))
    assert cells(there) == cells(made.root)
    assert marks(there) == marks(made.root) != []
    asked = (CLUSTER, BEGIN, BEGIN + timedelta(hours=1), "message_rate")
    assert picture(there, *asked).to_json() == picture(made.root, *asked).to_json()
    assert build(there)[0].columns == 0
