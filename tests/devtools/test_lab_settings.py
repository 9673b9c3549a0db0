import re
from typing import Any

import pytest

from devtools.lab import conf
from devtools.lab.admin import Admin
from devtools.lab.errors import LabError
from devtools.lab.ports import BLOCK, Ports, reserve
from devtools.lab.releases import LATEST, lock_of, releases
from devtools.lab.settings import LabSettings
from devtools.lab.tokens import Tokens
from evenkeel.spark.jars import locked_jars


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize("version", releases())
def test_a_lock_has_a_broker_with_all_jars_told_apart_by_their_file(version: str) -> None:
    jars = locked_jars(lock_of(version))
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert {jar.version for jar in jars if jar.group == "org.apache.pulsar"} == {version}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    natives = {jar.classifier for jar in jars if jar.classifier.startswith("linux")}
    assert natives == {"linux-x86_64", "linux-aarch_64"}


def test_there_is_a_release_of_both_lines() -> None:
    assert releases()[0] == LATEST
    assert {version.rpartition(".")[0] for version in releases()} == {"4.0", "4.2"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"version": "1.0"}, r"No Pulsar 1\.0 here; there is a lock file for 4\.2"),
        ({"manager": "simple"}, "'simple' is not a load manager"),
        ({"brokers": 0}, "0 brokers are too few"),
        ({"own_shedding": "Random"}, "'Random' is not a shedding strategy"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_starts(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(LabError, match=says):
        LabSettings(**wrong)


def test_brokers_keep_their_hands_off_unless_told_otherwise() -> None:
    ports = Ports(22_000)
    found = properties(conf.broker(2, ports, LabSettings(), None))
    assert found["advertisedAddress"] == "127.0.0.2"
    assert found["loadBalancerSheddingEnabled"] == found["loadBalancerAutoBundleSplitEnabled"] == "false"
    assert "authenticationEnabled" not in found
    steering = LabSettings(own_shedding="AvgShedder", own_split=True, broker={"statsUpdateFrequencyInSecs": "60"})
    found = properties(conf.broker(1, ports, steering, None))
    assert found["loadBalancerSheddingEnabled"] == found["loadBalancerAutoBundleSplitEnabled"] == "true"
    assert found["loadBalancerLoadPlacementStrategy"].endswith(".AvgShedder")
    assert found["statsUpdateFrequencyInSecs"] == "60"


def test_a_secret_key_shows_in_the_brokers_file_alone() -> None:
    tokens = Tokens()
    found = properties(conf.broker(1, Ports(22_000), LabSettings(auth=True), tokens))
    assert found["tokenSecretKey"] == tokens.secret_key_url()
    assert found["brokerClientAuthenticationParameters"] == f"token:{tokens.of('admin')}"
    assert tokens.key.hex() not in repr(tokens)
    assert str(tokens.key) not in repr(tokens)
    assert tokens.of("admin") not in repr(Admin(("http://127.0.0.1:1",), tokens.of("admin")))


def test_two_clusters_never_get_the_same_ports() -> None:
    first, lock = reserve(2)
    with lock:
        second, other = reserve(2)
        other.close()
        assert abs(first.base - second.base) >= BLOCK


def test_the_lab_speaks_to_loopback_only() -> None:
    with pytest.raises(LabError, match="not on loopback"):
        Admin(("http://192.0.2.1:8080",))
