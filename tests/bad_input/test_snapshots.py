"""A snapshot that is wrong in one place: what is wrong is set aside or unknown, and every other record is there."""

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.pulsar.observed_rows import observe
from evenkeel.settings import Detected, resolve
from evenkeel.sources.recordings import Recording
from evenkeel.sources.snapshot_files import read_header
from tests.bad_input.snapshots import clusters, heads
from tests.bad_input.values import by_place
from tests.pulsar.small_cluster import SmallCluster

CLUSTERS = dict(clusters())
HEADS = dict(heads())
BROKER_2 = "b2:8080"


def rows_of_broker_2(cluster: SmallCluster) -> dict[str, list[dict[str, Any]]]:
    rows = observe(cluster.view()).rows
    return {
        name: [row for row in rows[name] if row["broker"] == BROKER_2]
        for name in ("broker_reports", "bundle_ownership")
    }


SOUND = rows_of_broker_2(SmallCluster())


@pytest.mark.parametrize("names", by_place(CLUSTERS))
def test_what_is_wrong_in_one_answer_costs_nothing_else(names: list[str], subtests: pytest.Subtests) -> None:
    for name in names:
        with subtests.test(name):
            _demand_the_rest(name, CLUSTERS[name])


def _demand_the_rest(name: str, cluster: SmallCluster) -> None:
    observed = observe(cluster.view())
    if observed.left_out is not None:
        assert name.startswith("brokers ")
        assert observed.left_out.reason
        assert observed.left_out in observed.rejections
        return
    if not name.startswith("brokers "):
        assert rows_of_broker_2(cluster) == SOUND
    orders = [row["namespace"] for row in observed.rows["namespace_bundles"]]
    set_aside = [one for one in observed.rejections if "shop/orders" in one.place]
    assert orders == ["shop/orders"] or set_aside
    for one in observed.rejections:
        assert one.reason
        assert one.rule
    policies = observed.policies
    resolve(observed=policies["configuration"], overrides={}, generation=Detected(policies["generation"], ()))
    for rows in observed.rows.values():
        # Each row can be written: all texts are whole.
        json.dumps(rows, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("names", by_place(HEADS))
def test_a_document_that_is_no_snapshot_is_named_and_the_others_are_read(
    names: list[str], subtests: pytest.Subtests, tmp_path: Path
) -> None:
    SmallCluster().land(tmp_path, "0001.json")
    for name in names:
        with subtests.test(name):
            (tmp_path / "0000.json").write_bytes(HEADS[name])
            with pytest.raises(BadInput) as error:
                read_header(tmp_path / "0000.json")
            assert str(error.value)
            recording = Recording(tmp_path)
            assert [Path(one.path).name for one in recording.snapshots] == ["0001.json"]
            assert [Path(one.file).name for one in recording.problems] == ["0000.json"]
