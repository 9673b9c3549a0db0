"""A real cluster is taken over from its brokers, and given back."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.waiting import wait_until
from evenkeel.cli import main
from evenkeel.lake.record import read_table
from evenkeel.lake.store import Lake
from tests.e2e.scene import configuration
from tests.json_schemas import check

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

SHEDDING, SPLITTING = "loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled"
DYNAMIC = "/admin/v2/brokers/configuration"


@pytest.fixture
def steering_itself(modular_cluster: Cluster) -> Iterator[Cluster]:
    """Its brokers shed by themselves, for a while."""
    admin = modular_cluster.admin()
    admin.demand("POST", f"{DYNAMIC}/{SHEDDING}/true")
    wait_until("the brokers to shed", lambda: "true" in runtime(modular_cluster, SHEDDING), seconds=20)
    yield modular_cluster
    for switch in (SHEDDING, SPLITTING):
        admin.ask("DELETE", f"{DYNAMIC}/{switch}")
    wait_until("the brokers to let go", lambda: runtime(modular_cluster, SHEDDING) == {"false"}, seconds=20)


def runtime(cluster: Cluster, switch: str) -> set[str]:
    """What the brokers say of a switch."""
    return {cluster.admin().get(f"{DYNAMIC}/runtime", url=url)[switch] for url in cluster.urls}


def test_a_takeover_switches_the_brokers_off_and_a_handback_restores_what_was(
    spark: Any, steering_itself: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, lake, file = steering_itself, tmp_path / "lake", tmp_path / "evenkeel.toml"
    Lake(str(lake)).ensure_tables(spark, ["controls"])
    file.write_text(configuration(cluster, {}))
    options = ["lab", "--config", str(file), "--lake", str(lake), "--by", "jo"]
    assert main(["handback", *options]) == 2
    assert "no takeover of lab is on record" in capsys.readouterr().err

    for more in ([], ["--json"]):  # again and again is the same
        assert main(["takeover", *options, "--reason", "release night", *more]) == 0
        assert runtime(cluster, SHEDDING) == runtime(cluster, SPLITTING) == {"false"}
        said = capsys.readouterr().out
        switches = {SHEDDING: "true", SPLITTING: None}
        assert check("takeover", said)[0]["switches"] == switches if more else f"{SHEDDING} true" in said
    assert main(["handback", *options, "--json"]) == 0
    assert check("handback", capsys.readouterr().out)[0]["switches"] == switches
    wait_until("the brokers to shed again", lambda: runtime(cluster, SHEDDING) == {"true"}, seconds=20)
    values = cluster.admin().get(f"{DYNAMIC}/values")
    assert (values.get(SHEDDING), values.get(SPLITTING)) == ("true", None)
    rows = sorted(read_table(lake, "controls"), key=lambda row: row["at"])
    by = f"{pwd.getpwuid(os.geteuid()).pw_name} (jo)"
    assert [(row["kind"], row["by"], row["reason"]) for row in rows] == [
        ("takeover", by, "release night"),
        ("handback", by, None),
    ]
