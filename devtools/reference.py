"""Reference pages that are generated from the code: `python -m devtools.reference DOCS` writes them.

A test compares the pages in `docs/reference` with this module's output, so that they cannot become stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.lake.views.declarations import RAW, VIEWS
from evenkeel.metrics.declarations import (
    CONFIGURATION_USABLE,
    EMITTED,
    NEEDS,
    OF_CLUSTERS,
    OF_THE_EXPORTER,
    OF_THE_LOG,
    OF_VERIFY,
    OUTCOMES,
    SEVERITIES,
    ExportedMetric,
)
from evenkeel.pipeline import TASK_IDS
from evenkeel.settings import describe
from evenkeel.settings.cluster_entries import ClusterEntries, LimitEntries
from evenkeel.settings.configuration_file import configuration_schema
from evenkeel.settings.entries import AirflowEntries, Entries, LakeEntries, LogEntries, Operation, variables_of
from evenkeel.settings.key import NO_EFFECT

_LAYERS = {
    "observed": "What a snapshot showed",
    "checked": "Verdicts on what was observed",
    "derived": "The loads and the state that decisions use, and the heat map",
    "wished": "What operators ask for",
    "decided": "Decisions, each with its reason",
    "acted": "Plans, commands and the cycles themselves",
    "replayed": "What other strategies or settings would have decided; not part of the record",
    "kept": "What upkeep did",
}


def pages() -> Mapping[str, str]:
    """File name to Markdown text."""
    return {
        "tables.md": tables_page(),
        "views.md": views_page(),
        "settings.md": settings_page(),
        "configuration.md": configuration_page(),
        "metrics.md": metrics_page(),
    }


def tables_page() -> str:
    """Return the page of all tables: the meaning of a row, its key, its writer, and each column with type, unit and
    meaning."""
    parts = [
        "# Tables",
        "",
        "All tables are Delta tables by path under the lake's root. `NULL` means *not known*; a figure known to be",
        "nothing is 0. Rows count only once a manifest in `cycles` lists their `write_id`; the key names a row within",
        "one write. The heat tables are no part of the record: no manifest lists them, and their key names a row.",
    ]
    for layer, title in _LAYERS.items():
        parts += ["", f"## {title} ({layer})"]
        for table in EVERY_TABLE.values():
            if table.layer == layer:
                parts += ["", *_table(table)]
    return "\n".join(parts) + "\n"


def _table(table: Table) -> list[str]:
    key = ", ".join(("cluster", "cycle_at", *table.key)) if "cycle_at" in table.column_names() else ", ".join(table.key)
    lines = [
        f"### {table.name}",
        "",
        f"{table.comment} Written by {', '.join(table.producers)}. Key: {key}. "
        f"Partitioned by {', '.join(table.partition) or 'nothing'}.",
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    for column in table.columns:
        null = "" if column.nullable else " not null"
        lines.append(f"| `{column.name}` | `{column.type}`{null} | {column.unit} | {_cell(column.comment)} |")
    return lines


def views_page() -> str:
    """Return the page of all views: the meaning of a row, its key, and each column with type, unit and meaning."""
    lines = [
        "# Views",
        "",
        "[`evenkeel sql`](../how-to/query.md) reads these views, and `evenkeel views` makes them in DuckDB, Spark or",
        f"Trino. They hold only rows that count. `{RAW}` and the name of a [table](tables.md) is that table, with all",
        "rows. Moments are in UTC. `NULL` means *not known*; a figure known to be nothing is 0. Types are Spark's.",
    ]
    for view in VIEWS.values():
        lines += ["", f"## {view.name}", "", f"{view.comment} Key: {', '.join(view.key)}.", ""]
        lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        for column in view.columns:
            lines.append(f"| `{column.name}` | `{column.type}` | {column.unit} | {_cell(column.comment)} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """All settings: key, default per generation, unit, range, which manager reads it, meaning."""
    lines = [
        "# Settings",
        "",
        "Pulsar's own keys under Pulsar's own names, and Evenkeel's few (prefix `evenkeel`). An operator's value wins",
        "over the cluster's runtime configuration, which wins over the default compiled into Pulsar; the table",
        "`settings` records the origin of every value in force. `evenkeel settings TEXT` searches this list. What the",
        "strategies do with them: [strategies.md](strategies.md).",
        "",
        "*Takes effect* says when a running broker takes a new value; one that was not set dynamically is read at the",
        "start in any case. Evenkeel decides by a new value from its next cycle on. So a value that a broker takes at",
        "its restart is in force here before it is in force there: restart the brokers first, or set the value here",
        "after their restart. Keys with *no effect on decisions* are listed, because brokers report them.",
        "",
        "| key | default (4.x) | default (5.0) | unit | allowed | manager | takes effect | meaning |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key in describe():
        newer = key["default_5_0"] if key["default_5_0"] not in (None, key["default_4_x"]) else ""
        alias = f" Deprecated spelling of `{key['deprecated_alias_of']}`." if key["deprecated_alias_of"] else ""
        when = "at once" if key["takes_effect_at_once"] else "at a restart"
        lines.append(
            f"| `{key['key']}` | {_value(key['default_4_x'])} | {_value(newer)} | {key['unit']} | "
            f"{_cell(key['allowed'])} | {key['manager']} | {when} | {_cell(key['meaning'])}{alias}{_before(key)} |"
        )
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """Return the page of the configuration file: how Evenkeel runs, the clusters, and reading limits."""
    lines = [
        "# The configuration file",
        "",
        "One file in TOML says all that an operator configures: where the lake is, when Airflow's DAGs run and what",
        "they may send, which clusters there are and how they are reached, and the settings of each.",
        "`EVENKEEL_CONFIG` names it in the environment of Airflow and of commands (`--config` of a command names",
        "another one). Every component of Airflow that parses or runs a DAG needs to be able to read it.",
        "",
        "```sh",
        "evenkeel config check evenkeel.toml     # everything that is wrong with it: line, entry, what to do",
        "evenkeel config schema                  # its JSON schema, for editors",
        "```",
        "",
        "An environment variable of the same meaning, where set, wins over the file. Tokens and keys stand in no",
        "configuration: the file names connections, and files that hold a key. Of a file that a command is given by",
        "`--config`, clusters, settings and limits count; the lake, `[airflow]` and `[log]` are read of the one that",
        "`EVENKEEL_CONFIG` names.",
    ]
    tables = configuration_schema()["$defs"]
    lines += ["", "## The file's own level", "", *_entries(Operation, configuration_schema(), ("lake",))]
    for model, title, about in _CONFIGURED:
        lines += ["", f"## `[{title}]`", ""] + [line for text in about for line in (text, "")]
        lines += _entries(model, tables[model.__name__], model.model_fields)
    lines += [
        "",
        "## `[settings]`, `[clusters.NAME.settings]`",
        "",
        "Keys as in [settings.md](settings.md), for all clusters or for one. Those for one cluster win.",
    ]
    return "\n".join(lines) + "\n"


_CONFIGURED: tuple[tuple[type[Entries], str, tuple[str, ...]], ...] = (
    (AirflowEntries, "airflow", ()),
    (LogEntries, "log", ()),
    (LakeEntries, "lakes.NAME", ("Several lakes, each with its own writer: [lakes.md](../how-to/lakes.md).",)),
    (ClusterEntries, "clusters.NAME", ("A table for each cluster. `evenkeel doctor` tries what it names.",)),
    (
        LimitEntries,
        "limits",
        ("How much is read of all clusters at most. `[clusters.NAME.limits]` has those of one cluster, which win.",),
    ),
)
_TYPES = {
    "string": "text",
    "boolean": "true or false",
    "number": "number",
    "integer": "whole number",
    "array": "list of texts",
}


def _entries(model: type[Entries], schema: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The entries of a table, with the variable of each where any of them has one."""
    variables = {name: f" `{variable.name}` |" for name, variable in variables_of(model).items()}
    heading = " variable |" if variables else ""
    lines = [f"| entry | type | default |{heading} meaning |", f"|---|---|---|{'---|' if variables else ''}---|"]
    for name in names:
        entry = schema["properties"][name]
        if "$ref" in entry:  # a table, which is shown by itself
            continue
        default = f"`{_toml(entry['default'])}`" if "default" in entry else ""
        default = "needed" if name in schema.get("required", ()) else default
        about = _cell(entry["description"])
        lines.append(f"| `{name}` | {_type_of(entry)} | {default} |{variables.get(name, '')} {about} |")
    return lines


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _type_of(schema: Mapping[str, Any]) -> str:
    """The type and the range of an entry in words."""
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if "anyOf" in schema:
        return " or ".join(map(_type_of, schema["anyOf"]))
    above, lowest, highest = (schema.get(name) for name in ("exclusiveMinimum", "minimum", "maximum"))
    parts = [f"above {above:,}" if above is not None else "", f"from {lowest:,}" if lowest is not None else ""]
    parts.append(f"to {highest:,}" if highest is not None else "")
    return " ".join([_TYPES[schema["type"]], *filter(None, parts)])


def _before(key: Mapping[str, object]) -> str:
    """Return other defaults, if there are: of old versions, of settings recorded before the key existed; and effect."""
    usual = key["default_4_x"]
    older = ((f"Pulsar {version}", key[f"default_{version.replace('.', '_')}"]) for version in ("3.0", "3.3"))
    others = [(who, value) for who, value in older if value != usual]
    if key["before"] != usual:
        others.append(("In settings recorded before there was the key", key["before"]))
    effect = "" if key["decides"] else f" {NO_EFFECT.capitalize()}."
    return "".join(f" {who}: {_value(value)}." for who, value in others) + effect


def _value(value: object) -> str:
    if isinstance(value, frozenset | tuple):
        return ", ".join(sorted(map(str, value))) or "empty"
    return "" if value == "" else _cell(str(value))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_LABELS = {
    "cluster": "a cluster on record",
    "outcome": ", ".join(f"`{word}`" for word in OUTCOMES),
    "severity": ", ".join(f"`{word}`" for word in SEVERITIES),
    "task": ", ".join(f"`{word}`" for word in TASK_IDS),
    "witness": "the name of a witness of the log, 32 at most",
}


def metrics_page() -> str:
    """All metrics of `evenkeel metrics`: name, kind, unit, labels, meaning; and the values that labels take."""
    groups: dict[str, tuple[ExportedMetric, ...]] = {
        "The exporter": OF_THE_EXPORTER,
        "Clusters": OF_CLUSTERS,
        "What needs attention": tuple(need.metric for need in NEEDS),
        "The transparency log": OF_THE_LOG,
        "The last verify": OF_VERIFY,
    }
    lines = [
        "# Metrics",
        "",
        "What [`evenkeel metrics`](../how-to/monitoring.md) exports. A figure that is not known is missing, not 0.",
        "Moments are seconds since 1970: `time() - METRIC` is an age. Under *What needs attention* each metric counts",
        "what a need of [`evenkeel status`](status-json.md#needs) is about, by the same judgement; 0 without it.",
        "Metrics with a † are given to [Airflow's own metrics](../how-to/monitoring.md#use-airflows-own-metrics), too.",
        "Of [several lakes](../how-to/lakes.md) every metric has the label `lake`, too, the lake's name;",
        f"`{CONFIGURATION_USABLE.name}` alone has none.",
    ]
    for title, metrics in groups.items():
        lines += ["", f"## {title}", "", "| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
        for metric in metrics:
            mark = " †" if metric.name in EMITTED else ""
            labels = ", ".join(f"`{name}`" for name in metric.labels)
            lines.append(
                f"| `{metric.name}`{mark} | {metric.kind} | {metric.unit} | {labels} | {_cell(metric.meaning)} |"
            )
    lines += ["", "## Labels", "", "| label | values |", "|---|---|"]
    lines += [f"| `{name}` | {values} |" for name, values in _LABELS.items()]
    return "\n".join(lines) + "\n"


def main(folder: str) -> int:
    """Write the pages into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (target / name).write_text(text, encoding="utf-8")
        print(target / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
