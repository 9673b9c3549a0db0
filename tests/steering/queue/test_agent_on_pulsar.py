"""`evenkeel agent` beside real brokers: what the queue brings is split and moved, and reported as it was seen."""

from pathlib import Path

import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.laying_out import lay_out, owner_of
from devtools.lab.layout import skewed
from devtools.lab.measures import owners
from evenkeel.cli import main
from evenkeel.model.bundles import parse_range
from evenkeel.steering.sqs import SqsSink
from tests.steering.commands import split, unload
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import KEY, LAB
from tests.steering.queue.running import collect

pytestmark = [pytest.mark.pulsar, pytest.mark.slow, pytest.mark.exhaustive]


def test_commands_from_the_queue_are_carried_out_on_real_brokers(
    modular_cluster: Cluster, fresh_tenant: str, queues: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_KEYS_QUEUE_LAB", KEY)
    hot, other, third = modular_cluster.broker_ids
    layout = skewed(fresh_tenant, modular_cluster.broker_ids)
    lay_out(modular_cluster, layout)
    cut = layout.hottest
    moved = [bundle for bundle in layout.bundles if bundle.broker == hot and bundle is not cut][:3]
    wrong = next(bundle for bundle in layout.bundles if bundle.broker == other)
    middle = cut.range.lower + cut.range.width // 2
    commands = [
        split(cut.name, hot, middle, step=1),
        *(unload(bundle.name, hot, third, step=2 + n) for n, bundle in enumerate(moved)),
        unload(wrong.name, hot, third, step=2 + len(moved)),  # it is not where it was decided that it is
    ]
    assert SqsSink(LAB, queues.commands, queues.reports).send(commands) == []
    asked = ["agent", "--cluster", "lab", "--queue", queues.commands, "--reports", queues.reports, "--once"]
    assert main([*asked, "--admin", *modular_cluster.urls, "--ledger", str(tmp_path / "ledger.db")]) == 0

    found = collect(queues, [row["command_id"] for row in commands])
    admin = modular_cluster.admin()
    assert [found[row["command_id"]].outcome for row in (commands[0], commands[-1])] == ["done", "stale"]
    assert owner_of(admin, wrong.topics[0].name) == other
    # On a busy machine Pulsar may give a bundle to another broker than was asked for, or back: then that is reported.
    reported = {bundle.name: found[row["command_id"]].outcome for bundle, row in zip(moved, commands[1:], strict=False)}
    there = {bundle.name: owner_of(admin, bundle.topics[0].name) == third for bundle in moved}
    assert reported == {name: "done" if is_there else "overridden" for name, is_there in there.items()}
    assert any(there.values()), reported
    parts = {
        parse_range(name.rpartition("/")[2])
        for name in owners(admin, of=f"{cut.namespace}/")
        if parse_range(name.rpartition("/")[2]).lower in (cut.range.lower, middle)
    }
    assert {part.upper for part in parts} == {middle, cut.range.upper}
