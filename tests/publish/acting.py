"""Brokers that answer over HTTP in the state of a recorded snapshot, and what tests of acting look at afterwards."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenkeel.handover import Handover
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_cycles, read_table
from evenkeel.model.bundles import decode_number
from evenkeel.publish.dispatch import Sending
from evenkeel.publish.task import run as publish
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.pulsar.answers import Kind, subject_of
from evenkeel.steering.dispatcher import Timing
from tests.pulsar.admin.books import replayed, requests_in
from tests.pulsar.admin.simulated import Asked
from tests.shed.fitted import FITTED
from tests.steering.simulated import Answered, SimulatedPulsar

RECORDINGS = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold"
SNAPSHOT = RECORDINGS / "0015.json.gz"
QUICK = Timing(lease_s=60.0, renew_s=1.0, look_s=0.05, write_s=0.2, longest_request_s=1.0)
SHORT_LEASE_S = 15.0
"""Of publishers that are killed: their successors wait for the lease to end. On a busy machine an append takes four
seconds, and who renews a lease too late rightly stops sending."""
# The recording is of another day, and nothing but age speaks against it here.
PATIENT = {
    "evenkeelMaxReportAgeSeconds": 10.0**9,
    "evenkeelCommandsPerSecond": 0,
    "evenkeelOutcomeWaitSeconds": 1.0,
    "evenkeelMaxMovedTrafficPercent": 100.0,
    "evenkeelMaxBundleTrafficPercent": 100.0,
}


def reaching(url: str, timing: Timing = QUICK) -> Sending:
    """A publisher's way to the brokers, in a hurry."""
    connection = AdminConnection((url,))
    return Sending(lambda cycle: AdminClient(connection), timing=timing)


class Lab:
    """Simulated brokers in the state of a recorded snapshot, and that snapshot with their addresses in it."""

    def __init__(self, folder: Path) -> None:
        self.pulsar = SimulatedPulsar()
        port = self.pulsar.brokers[0].rpartition(":")[2]
        text = re.sub(r"(127\.0\.0\.\d):1\d080", rf"\1:{port}", gzip.decompress(SNAPSHOT.read_bytes()).decode())
        folder.mkdir()
        (folder / "0001.json").write_text(text)
        self.folder, self.at = folder, json.loads(text)["finished_at"]
        _set_up(self.pulsar, json.loads(text)["requests"])

    @property
    def sending(self) -> Sending:
        return reaching(self.pulsar.url)

    def request(self, lake: Path) -> CycleRequest:
        """A cycle over the snapshot, with a split and two unloads wished for beside what is shed."""
        wished = sorted(self.pulsar.owner)[:3]
        asked = [{"kind": "unload", "namespace": b.rpartition("/")[0], "bundle": b.rpartition("/")[2]} for b in wished]
        asked[0] |= {"kind": "split"}
        return CycleRequest(
            lake=str(lake), source=f"recording:{self.folder}", at=self.at, mode="auto", run_id="test",
            overrides=FITTED["ThresholdShedder"] | PATIENT, wishes=tuple(asked),
        )  # fmt: skip


LOAD_REPORT = "/admin/v2/broker-stats/load-report"


class LivingPulsar(SimulatedPulsar):
    """Brokers that can be collected as well: what they do not know themselves they tell as it was recorded."""

    def __init__(self) -> None:
        super().__init__()
        requests = requests_in(SNAPSHOT, RECORDINGS / "0009.json.gz", RECORDINGS / "0000.json.gz")
        self._recorded = replayed(requests)(self.brokers)
        port = self.brokers[0].rpartition(":")[2]
        renamed = [
            {name: re.sub(r"(127\.0\.0\.\d):1\d080", rf"\1:{port}", value) if isinstance(value, str) else value
             for name, value in request.items()}
            for request in requests_in(SNAPSHOT)
        ]  # fmt: skip
        _set_up(self, renamed)
        recorded = json.loads(self._told(self.brokers[0], "/admin/v2/brokers/configuration/runtime"))
        self.configuration = {broker: {**recorded, **own} for broker, own in self.configuration.items()}
        self._reports = {broker: json.loads(self._told(broker, LOAD_REPORT)) for broker in self.brokers}

    def known(self, broker: str, method: str, path: str, query: dict[str, str], body: str) -> Answered:
        found = super().known(broker, method, path, query, body)
        if found[0] != 404 or method != "GET":
            return found
        told = self._recorded(Asked(broker, method, path, body, None))
        if told is None:
            return found
        text = told.data().decode()
        if subject_of(path).kind == Kind.POLICIES and told.status == 200:
            name = "/".join(path.split("/")[4:6])
            bounds = [f"0x{bound:08x}" for bound in self.boundaries[name]]
            return 200, json.loads(text) | {"bundles": {"boundaries": bounds, "numBundles": len(bounds) - 1}}, None
        if path == LOAD_REPORT:
            return 200, self._report(broker), None
        try:
            return told.status, json.loads(text), None
        except ValueError:
            return told.status, None, None

    def _report(self, broker: str) -> dict[str, Any]:
        """The recorded report, with the bundles that the broker owns now and that have figures."""
        stats = {name: one for report in self._reports.values() for name, one in report["lastStats"].items()}
        own = sorted(name for name in stats if self.owner.get(name) == broker)
        return self._reports[broker] | {"bundles": own, "lastStats": {name: stats[name] for name in own}}

    def _told(self, broker: str, path: str) -> str:
        told = self._recorded(Asked(broker, "GET", path, "", None))
        assert told is not None, path
        return told.data().decode()

    def described(self, name: str = "lab", **more: str) -> str:
        """The part of a configuration by which a pipeline watches and steers these brokers."""
        lines = [f"[clusters.{name}]", f'admin = ["{self.url}"]', *(f'{key} = "{text}"' for key, text in more.items())]
        lines += [f"[clusters.{name}.settings]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in (FITTED["ThresholdShedder"] | PATIENT).items()]
        return "\n".join(lines) + "\n"


def _set_up(pulsar: SimulatedPulsar, requests: Sequence[Mapping[str, Any]]) -> None:
    """Boundaries and owners as a snapshot shows them."""
    for request in requests:
        if request["status"] == 200 and request["path"].endswith("/bundles"):
            name = "/".join(request["path"].split("/")[4:6])
            pulsar.boundaries[name] = [decode_number(x) for x in json.loads(request["body"])["boundaries"]]
        if request["status"] == 200 and request["path"].endswith("/ownedNamespaces"):
            owned = [bundle for bundle in json.loads(request["body"]) if not bundle.startswith("pulsar/")]
            pulsar.owner |= dict.fromkeys(owned, request["broker"])


@dataclass
class Case:
    """A copy of the decided cycle for one test, and the brokers as they were when it was decided."""

    spark: Any
    lab: Lab
    lake: Path
    handover: Handover

    @property
    def cluster(self) -> str:
        return self.handover.cycles[0].cluster

    def publish(self, sending: Sending | None = None) -> Handover:
        return publish(self.spark, self.handover, sending or self.lab.sending)

    def last(self) -> dict[str, dict[str, Any]]:
        """The last word on each command."""
        rows = sorted(read_table(self.lake, "outcomes"), key=lambda row: row["seen_at"])
        return {row["command_id"]: row for row in rows}

    def outcomes(self) -> Counter[str]:
        """How many commands ended in what, by the last word on each."""
        return Counter(row["outcome"] for row in self.last().values())

    def commands(self) -> list[dict[str, Any]]:
        rows = {row["command_id"]: row for row in read_table(self.lake, "commands")}
        return sorted(rows.values(), key=lambda row: row["step"])

    def attempt(self) -> Attempt:
        (attempt,) = read_cycles(self.lake)
        return attempt

    def sent(self) -> list[str]:
        return [path for _, method, path, _ in self.lab.pulsar.requests if method == "PUT"]

    def most_effects(self) -> int:
        """On any one bundle."""
        return max(Counter(one[1] for one in self.lab.pulsar.effects).values())


def in_mode(case: Case, mode: str, kind: str = "live") -> Handover:
    return replace(case.handover, run=replace(case.handover.run, mode=mode, kind=kind))


def with_settings(handover: Handover, **values: Any) -> Handover:
    """The decided cycle with other settings of sending, which no decision rests on."""
    changed = []
    for cycle in handover.cycles:
        body = json.loads(cycle.settings or "")
        body["settings"] |= values
        changed.append(replace(cycle, settings=json.dumps(body)))
    return handover.with_cycles(changed)
