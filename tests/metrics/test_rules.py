"""Alerts, their runbooks and the dashboard: they name only metrics that there are, and promtool has nothing to say."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.metrics.declarations import BY_NAME

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
PROMETHEUS = CHECKOUT / "docker" / "prometheus"
RULES = PROMETHEUS / "evenkeel.rules.yml"
TRIED = Path(__file__).with_name("evenkeel.rules.test.yml")
PAGE = CHECKOUT / "docs" / "how-to" / "monitoring.md"
GRAFANA = CHECKOUT / "docker" / "grafana" / "provisioning"
PARTS = ("**Means.** ", "**Look at.** ", "**Do.** ")
INSTALL = "apt-get install --no-install-recommends prometheus"
METRIC = re.compile(r"\bevenkeel_[a-z_]+")


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


ALERTS = alerts()


def sections() -> dict[str, str]:
    """Return heading -> text of the runbooks."""
    _, _, runbooks = PAGE.read_text(encoding="utf-8").partition("\n## Runbooks\n")
    parts = re.split(r"^### (.+)$", runbooks, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_how_grave_what_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert notes["runbook"] == f"docs/how-to/monitoring.md#{alert['alert'].lower()}"
    section = sections()[alert["alert"]]
    assert all(part in section for part in PARTS)
    assert f"`{alert['expr']}` · {alert['labels']['severity']} · {alert.get('for', 'at once')}\n" in section


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_rests_on_metrics_and_labels_that_there_are(alert: dict[str, Any]) -> None:
    named = METRIC.findall(alert["expr"])
    assert named
    assert set(named) <= set(BY_NAME)
    labels = {label for name in named for label in BY_NAME[name].labels}
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(alert["annotations"])))
    assert used <= labels


def test_each_runbook_has_its_alert_and_what_is_asked_for_is_there() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert [*sections()] == names
    assert {
        *("EvenkeelCycleLate", "EvenkeelNoCycle", "EvenkeelQuarantined", "EvenkeelCommandLost", "EvenkeelBounce"),
        *("EvenkeelClientsHarmed", "EvenkeelBrokerIdle", "EvenkeelBundleTooHot", "EvenkeelVerifyFailed"),
        "EvenkeelWitnessBehind",
    } <= set(names)


def test_runbooks_name_only_commands_and_settings_that_there_are() -> None:
    from evenkeel.cli import COMMANDS
    from evenkeel.settings import describe

    text = PAGE.read_text(encoding="utf-8")
    commands = {name for added in COMMANDS.values() for name in added}
    assert set(re.findall(r"`evenkeel ([a-z][a-z-]+)", text)) <= commands
    assert set(re.findall(r"`(evenkeel[A-Z]\w+)`", text)) <= {str(key["key"]) for key in describe()}
    assert set(METRIC.findall(text)) <= set(BY_NAME)


def test_each_alert_is_tried_both_ways() -> None:
    tried: dict[str, set[bool]] = {}
    for case in yaml.safe_load(TRIED.read_text(encoding="utf-8"))["tests"]:
        for one in case["alert_rule_test"]:
            tried.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert tried == {alert["alert"]: {True, False} for alert in ALERTS}


@pytest.mark.skipif(shutil.which("promtool") is None, reason=f"promtool is missing: {INSTALL}")
@pytest.mark.parametrize(
    "words",
    [
        ["check", "rules", RULES],
        ["check", "config", PROMETHEUS / "prometheus.yml"],
        ["check", "config", "--syntax-only", PROMETHEUS / "prometheus.compose.yml"],
        ["test", "rules", TRIED],
    ],
    ids=["rules", "config", "compose", "tried"],
)
def test_promtool_has_nothing_to_say(words: list[Any]) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


# The dashboard


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GRAFANA / "dashboards" / "evenkeel.json").read_text(encoding="utf-8"))
    return loaded


PANELS: list[dict[str, Any]] = dashboard()["panels"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_there_are(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        named = METRIC.findall(target["expr"])
        assert named
        assert set(named) <= set(BY_NAME)
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert legend <= {label for name in named for label in BY_NAME[name].labels}
        has_cluster = any("cluster" in BY_NAME[name].labels for name in named)
        assert ('cluster=~"$cluster"' in target["expr"]) == has_cluster
        assert target["datasource"]["uid"] == "${datasource}"


def test_the_dashboard_is_whole() -> None:
    board = dashboard()
    assert board["uid"] == "evenkeel"
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert set(variables) == {"datasource", "cluster"}
    assert variables["cluster"]["definition"] == "label_values(evenkeel_cycle_timestamp_seconds, cluster)"
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels lie over one another"
    assert max(x for x, _ in cells) < 24
    for panel in PANELS:
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))


def test_what_is_provisioned_is_what_lies_there() -> None:
    (source,) = yaml.safe_load((GRAFANA / "datasources" / "evenkeel.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((GRAFANA / "dashboards" / "evenkeel.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    (rules,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["rule_files"]
    assert (PROMETHEUS / rules) == RULES


@pytest.mark.skipif(shutil.which("promtool") is None, reason=f"promtool is missing: {INSTALL}")
def test_every_query_of_the_dashboard_is_understood(tmp_path: Path) -> None:
    queries = [target["expr"].replace("$cluster", ".*") for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"dashboard:query:{n}", "expr": query} for n, query in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
