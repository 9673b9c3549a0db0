"""What is said of running clusters: real HTTP with recorded answers of real brokers, and with faults among them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from evenkeel.doctor import clusters
from evenkeel.doctor.checks import CheckFinding, CheckOutcome, Site
from evenkeel.errors import EvenkeelError, Unreachable
from evenkeel.pulsar.admin import authentication
from evenkeel.pulsar.admin.connection import Credentials
from evenkeel.secret import Secret
from evenkeel.sources.configuration import ClusterSource, LiveSource
from evenkeel.steering import premise
from tests.pulsar.admin.books import replayed, requests_in
from tests.pulsar.admin.simulated import Answer, SimulatedCluster

FIRST = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold" / "0000.json.gz"
TOKEN = "sesame-open-the-cluster"
OFF = '{"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false", "clusterName": "lab"}'
RUNTIME = "brokers/configuration/runtime"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(replayed(requests_in(FIRST)), brokers=3, token=TOKEN) as running:
        yield running


def site(url: str, token: str = TOKEN, **environment: str) -> Site:
    source = ClusterSource("east", Path("landing"), live=LiveSource((url,), "pulsar_east"))
    return Site(
        sources=(source,), environment=environment, resolve=lambda _: Credentials(authentication.token(Secret(token)))
    )


def dated(**ahead: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(**ahead), usegmt=True)


def test_a_cluster_that_answers_a_super_user_is_fine(cluster: SimulatedCluster) -> None:
    here = site(cluster.url)
    assert clusters.live_clusters(here) == ["east"]
    assert clusters.check_admin(here, "east").words == "3 brokers, asked with the rights of a super user"
    found = clusters.check_versions(here, "east")
    assert (found.outcome, found.words.startswith("Pulsar 4.")) == (CheckOutcome.OK, True)
    assert all(asked.method == "GET" for asked in cluster.seen)


def test_a_wrong_token_is_told_and_never_shown(cluster: SimulatedCluster) -> None:
    here = site(cluster.url, "another-secret-token")
    with pytest.raises(Unreachable, match=r"token \(or password\) is missing, wrong or expired") as told:
        clusters.check_admin(here, "east")
    assert "another-secret" not in str(told.value)
    for check in (clusters.check_versions, clusters.check_hung, clusters.check_switches, clusters.check_clocks):
        assert check(here, "east").advice == "see the check `admin`"


@pytest.mark.parametrize("path", ["brokers/configuration/values", RUNTIME])
def test_a_role_that_is_no_super_user_is_told_what_is_refused(cluster: SimulatedCluster, path: str) -> None:
    cluster.fault(path, Answer(401, '{"reason": "This operation requires super-user access"}'))
    found = clusters.check_admin(site(cluster.url), "east")
    assert found.outcome == CheckOutcome.FAIL
    assert path in found.words
    assert "not a super user" in found.words


def test_a_cluster_that_is_not_there_and_a_connection_that_nobody_knows(cluster: SimulatedCluster) -> None:
    url = cluster.url
    cluster.close()
    with pytest.raises(Unreachable, match="connection refused"):
        clusters.check_admin(site(url), "east")
    unknown = Site(sources=site(url).sources, environment={}, resolve=lambda _: None)
    with pytest.raises(EvenkeelError, match="connection 'pulsar_east' is unknown: set EVENKEEL_TOKEN_PULSAR_EAST"):
        clusters.check_admin(unknown, "east")


def test_a_broker_that_hangs_is_named(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clusters.check_hung(site(cluster.url), "east").outcome == CheckOutcome.OK
    monkeypatch.setattr(premise, "_LOOK_SECONDS", 0.5)
    hung = cluster.ids[1]
    cluster.fault("/partitions", Answer(404, "{}", delay_s=2.0), broker=hung)
    found = clusters.check_hung(site(cluster.url), "east")
    assert (found.outcome, found.words) == (CheckOutcome.FAIL, f"{hung} did not answer")
    assert "SIGKILL" in found.advice


@pytest.mark.parametrize(
    ("told", "outcome", "words"),
    [
        (Answer(200, '"4.0.9"'), CheckOutcome.OK, "Pulsar 4.0.9"),
        (Answer(200, "5.0.0-M1"), CheckOutcome.OK, "Pulsar 5.0.0-M1"),
        (Answer(200, '"3.3.1"'), CheckOutcome.WARN, "Pulsar 3.3.1"),
        (Answer(200, '"six"'), CheckOutcome.WARN, "of a version that no broker reports"),
        (Answer(500, "oops"), CheckOutcome.WARN, "did not tell"),
    ],
)
def test_versions_that_are_not_known_are_told(
    cluster: SimulatedCluster, told: Answer, outcome: CheckOutcome, words: str
) -> None:
    cluster.fault("brokers/version", told)
    found = clusters.check_versions(site(cluster.url), "east")
    assert found.outcome == outcome
    assert words in found.words


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("4.0.8", ["its UniformLoadShedder: a bundle may be 1,000 msg/s"]),
        ("3.0.2", ["3.0.2 has no AvgShedder", "its OverloadShedder: usage has no weights", "its TransferShedder"]),
        ("4.2.4", []),
    ],
)
def test_strategies_that_differ_in_the_brokers_version_are_named(
    cluster: SimulatedCluster, version: str, words: list[str]
) -> None:
    cluster.fault("brokers/version", Answer(200, f'"{version}"'))
    found = clusters.check_versions(site(cluster.url), "east").words
    assert all(word in found for word in words)
    assert bool(words) == ("; " in found)


def test_two_versions_are_an_upgrade_under_way(cluster: SimulatedCluster) -> None:
    cluster.fault("brokers/version", Answer(200, '"5.0.0"'), broker=cluster.ids[0])
    found = clusters.check_versions(site(cluster.url), "east")
    assert (found.outcome, "an upgrade under way" in found.words) == (CheckOutcome.OK, True)


def switches(cluster: SimulatedCluster, mode: str = "auto") -> CheckFinding:
    return clusters.check_switches(site(cluster.url, EVENKEEL_MODE=mode), "east")


def test_brokers_that_steer_themselves_fail_where_something_may_be_sent(cluster: SimulatedCluster) -> None:
    found = switches(cluster)
    assert found.outcome == CheckOutcome.FAIL
    assert "loadBalancerSheddingEnabled is not off on" in found.words
    assert "evenkeel takeover" in found.words
    assert switches(cluster, "").outcome == switches(cluster, "dry_run").outcome == CheckOutcome.OK
    cluster.fault(RUNTIME, Answer(200, OFF))
    assert switches(cluster).words == "3 brokers leave shedding and splitting to Evenkeel"


def test_one_broker_that_sheds_or_runs_no_load_manager_is_named(cluster: SimulatedCluster) -> None:
    on = OFF.replace('SheddingEnabled": "false"', 'SheddingEnabled": "true"')
    idle = OFF.replace("{", '{"loadBalancerEnabled": "false", ')
    cluster.fault(RUNTIME, Answer(200, on), broker=cluster.ids[2], times=1)
    cluster.fault(RUNTIME, Answer(200, idle), broker=cluster.ids[2])
    cluster.fault(RUNTIME, Answer(200, OFF))
    assert f"is not off on {cluster.ids[2]}: two would steer" in switches(cluster).words
    found = switches(cluster, "dry_run")
    assert (found.outcome, f"is off on {cluster.ids[2]}" in found.words) == (CheckOutcome.FAIL, True)


@pytest.mark.parametrize(
    ("ahead", "outcome", "words"),
    [
        ({"seconds": 0}, CheckOutcome.OK, "the clocks of 3 brokers are within 5 s"),
        ({"seconds": 60}, CheckOutcome.WARN, "s ahead of this machine"),
        ({"hours": 1}, CheckOutcome.FAIL, "s ahead of this machine"),
        ({"hours": -1}, CheckOutcome.FAIL, "s behind this machine"),
    ],
)
def test_a_clock_that_is_off_is_told_by_how_much_and_of_whom(
    cluster: SimulatedCluster, ahead: dict[str, float], outcome: CheckOutcome, words: str
) -> None:
    for broker in cluster.ids:
        own = ahead if broker == cluster.ids[1] else {"seconds": 0}
        cluster.fault(
            "brokers/version", lambda _, own=own: Answer(200, '"4.2.4"', headers={"Date": dated(**own)}), broker=broker
        )
    found = clusters.check_clocks(site(cluster.url), "east")
    assert found.outcome == outcome
    assert words in found.words
    assert outcome == CheckOutcome.OK or cluster.ids[1] in found.words


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}, {"Date": "Fri, 27 Nov 2026 13:00:00"}])
def test_answers_without_a_date_are_told_as_such(cluster: SimulatedCluster, headers: dict[str, str]) -> None:
    cluster.fault("brokers/version", Answer(200, '"4.2.4"', headers=headers))
    found = clusters.check_clocks(site(cluster.url), "east")
    assert (found.outcome, "bears a Date header" in found.words) == (CheckOutcome.SKIPPED, True)
