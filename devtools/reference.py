"""Reference pages that are generated from the code: `python -m devtools.reference DOCS` writes them.

A test compares the pages in `docs/reference` with this module's output, so that they cannot become stale.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.lake.views.declarations import RAW, VIEWS
from evenkeel.metrics.declarations import (
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

CHECKOUT = Path(__file__).resolve().parent.parent
MONITORING = "../how-to/monitoring.md"
BEGIN, END = "<!-- metrics: written by `make docs` -->", "<!-- end of metrics -->"
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
    """File name, relative to `docs/reference`, to its text."""
    return {
        "tables.md": tables_page(),
        "columns.csv": columns_file(),
        "configuration.md": configuration_page(),
        MONITORING: monitoring_page(),
    }


def tables_page() -> str:
    """Return the page of all views and tables: the meaning of a row, its key, its writer, its columns."""
    parts = [
        "# Views and tables",
        "",
        "This page is for readers of the lake.",
        *_views_part(),
        "",
        "## Tables",
        "",
        "All are Delta tables, by path under the lake's root.",
        "[columns.csv](columns.csv) has type, unit and meaning of each column; so has `DESCRIBE TABLE` in Spark.",
        "[Query the tables](../how-to/query.md) shows how to read them.",
        "",
        "* `NULL` means *not known*. A figure known to be nothing is 0.",
        "* Rows count only once a manifest in `cycles` lists their `write_id`. The key names a row within one write,",
        "  beside `cluster` and, if there is one, `cycle_at`.",
        "* The heat tables are no part of the record: no manifest lists them, and their key names a row.",
        f"* Every table has `cluster`, and all but a few have {', '.join(f'`{name}`' for name in _COMMON[1:])}: moment",
        "  and UTC date of the decision, and the try of a task that wrote the row. The lists below leave them out.",
        "* Without another note a table is partitioned by `cluster`, `cycle_date`.",
    ]
    for layer, title in _LAYERS.items():
        parts += ["", f"### {title} ({layer})", "", "|table|a row, its writer, its key|columns|", "|---|---|---|"]
        parts += [_table_row(table) for table in EVERY_TABLE.values() if table.layer == layer]
    parts += ["", "### Columns", "", "```{csv-table}", ":file: columns.csv", ":header-rows: 1", "```"]
    return "\n".join(parts) + "\n"


_COMMON = ("cluster", "cycle_at", "cycle_date", "write_id")


def _views_part() -> list[str]:
    """Return what each view holds: the meaning of a row, its key, and each column with type, unit and meaning."""
    lines = [
        "",
        "## Views",
        "",
        "[`evenkeel sql`](../how-to/query.md) reads these views, and `evenkeel views` makes them in DuckDB, Spark or",
        f"Trino. They hold only rows that count. `{RAW}` and the name of a [table](#tables) is that table, with all",
        "rows. Moments are in UTC. `NULL` means *not known*; a figure known to be nothing is 0. Types are Spark's.",
    ]
    for view in VIEWS.values():
        lines += ["", f"### {view.name}", "", f"{view.comment} Key: {', '.join(view.key)}.", ""]
        lines += ["|column|type|unit|meaning|", "|---|---|---|---|"]
        lines += [f"|`{c.name}`|`{c.type}`|{c.unit}|{_cell(c.comment)}|" for c in view.columns]
    return lines


def _table_row(table: Table) -> str:
    key = " ".join(f"`{name}`" for name in table.key)
    partition = ", ".join(table.partition)
    about = f"{_cell(table.comment)} By {', '.join(table.producers)}." + (f" Key: {key}." if key else "")
    if partition != "cluster, cycle_date":
        about += f" Partition: {partition or 'none'}."
    names = ", ".join(f"`{name}`" for name in table.column_names() if name not in _COMMON)
    return f"|`{table.name}`|{about}|{names}|"


def columns_file() -> str:
    """Return all columns of all tables as CSV."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("table", "column", "type", "unit", "meaning"))
    for table in EVERY_TABLE.values():
        for column in table.columns:
            kind = f"`{column.type}`" if "<" in column.type else column.type
            kind += "" if column.nullable else " not null"
            lines.writerow((table.name, column.name, kind, column.unit, column.comment))
    return text.getvalue()


def _settings_part() -> list[str]:
    """All settings: key, default per generation, allowed values with their unit, meaning."""
    lines = [
        "## Settings",
        "",
        "Keys of `[settings]` (all clusters) and `[clusters.NAME.settings]` (one cluster, which wins) are Pulsar's",
        "own, and Evenkeel's with the prefix `evenkeel`. An operator's value wins over the runtime configuration,",
        "which wins over the default compiled into Pulsar. The table `settings` records the origin of every value in",
        "force. `evenkeel settings TEXT` searches this list. [Strategies](strategies.md) says how they are used.",
        "",
        "* †: a running broker takes a new value at its restart only; Evenkeel decides by it from its next cycle on.",
        "  Restart the brokers first, or set the value here after their restart.",
        "* *4.x → 5.0*: the default differs between the generations.",
        "* *Modular*, *extensible*: the key counts for this load manager only.",
        "* *Older records*: the value that cycles had which were recorded before the key existed.",
        "",
        "|key|default|allowed|meaning|",
        "|---|---|---|---|",
    ]
    for key in describe():
        if key["decides"]:
            name = f"`{key['key']}`{'' if key['takes_effect_at_once'] else ' †'}"
            lines.append(f"|{name}|{_default(key)}|{_allowed(key)}|{_meaning(key)}|")
    idle = ", ".join(f"`{key['key']}`" for key in describe() if not key["decides"])
    return [*lines, "", f"Brokers report these too; they have {NO_EFFECT}: {idle}."]


def _default(key: Mapping[str, Any]) -> str:
    usual, newer = key["default_4_x"], key["default_5_0"]
    return _value(usual) if newer in (None, usual) else f"{_value(usual)} → {_value(newer)}"


_NO_UNITS = ("switch", "name", "algorithm name", "algorithm names", "class", "rule")


def _allowed(key: Mapping[str, Any]) -> str:
    """The allowed values in short, with their unit."""
    text = str(key["allowed"])
    for pattern, short in (
        (r"^(list of )?str, one of ", ""),
        (r"^list of str$", "list"),
        (r"^(bool|float)$", ""),
        (r"^(int|float) from (\S+) to 2,147,483,647$", r"≥ \2"),
        (r"^(?:int|float)( or unset)? of at least (\S+)$", r"≥ \2\1"),
        (r"^(int|float) from (\S+) to (\S+)$", r"\2–\3"),
    ):
        text = re.sub(pattern, short, text)
    unit = (
        "" if key["unit"] in ("switch", "name", "algorithm name", "algorithm names", "class", "rule") else key["unit"]
    )
    return _cell(f"{text} {unit}".strip())


def _meaning(key: Mapping[str, Any]) -> str:
    manager = "" if key["manager"] in ("both", "none") else f" *{str(key['manager']).capitalize()}.*"
    alias = f" Deprecated spelling of `{key['deprecated_alias_of']}`." if key["deprecated_alias_of"] else ""
    return f"{_cell(key['meaning'])}{alias}{_before(key)}{manager}"


def configuration_page() -> str:
    """Return the page of the configuration file: how Evenkeel runs, the clusters, reading limits and settings."""
    lines = [
        "# The configuration file and the settings",
        "",
        "This page is for looking up. One file in TOML has all that an operator configures. `EVENKEEL_CONFIG` names it",
        "in the environment of Airflow and of commands; `--config` of a command names another one. Every component of",
        "Airflow that parses or runs a DAG has to be able to read it.",
        "",
        "```sh",
        "evenkeel config check evenkeel.toml     # everything that is wrong with it: line, entry, what to do",
        "evenkeel config schema                  # its JSON schema, for editors",
        "```",
        "",
        "* An environment variable of the same meaning wins over the file.",
        "* Tokens and keys are never in the file: it names connections, and files that hold a key.",
        "* Of a file that is given by `--config`, clusters, settings and limits count. The lake, `[airflow]` and",
        "  `[log]` are read from the file that `EVENKEEL_CONFIG` names.",
    ]
    tables = configuration_schema()["$defs"]
    lines += ["", "## The file's own level", "", *_entries(Operation, configuration_schema(), ("lake",))]
    for model, title, about in _CONFIGURED:
        lines += ["", f"## `[{title}]`", ""] + [line for text in about for line in (text, "")]
        lines += _entries(model, tables[model.__name__], model.model_fields)
    return "\n".join([*lines, "", *_settings_part()]) + "\n"


_CONFIGURED: tuple[tuple[type[Entries], str, tuple[str, ...]], ...] = (
    (AirflowEntries, "airflow", ()),
    (LogEntries, "log", ()),
    (
        LakeEntries,
        "lakes.NAME",
        ("[Several lakes](../how-to/storage.md#keep-many-clusters-in-several-lakes), each with its own writer.",),
    ),
    (ClusterEntries, "clusters.NAME", ("A table for each cluster. `evenkeel doctor` tries what it names.",)),
    (
        LimitEntries,
        "limits",
        (
            "How much is read of all clusters at most. `[clusters.NAME.limits]` has those of one cluster, which win.",
            "Evenkeel rejects what is beyond a limit with a row in `rejected` (rule `beyond_limit`), or skips that "
            "cluster's cycle with the reason; other clusters continue. Beyond `small_answer_mib` and `json_depth` "
            "the answer is unknown; beyond `quotas` bundles count as without a quota; beyond `run_mib` the largest "
            "clusters are skipped.",
            "Limits say how a source is read, not what is decided: they change no digest. Sizes are of unpacked "
            "text, except `packed_mib`. The defaults leave room for twenty million topics and a hundred thousand "
            "bundles. A cluster without a configuration file has the defaults. A higher `answer_mib` or "
            "`document_mib` takes memory of the Spark server (`EVENKEEL_SERVER_MEMORY`): with two cores and 2 GB it "
            "reads answers of 64 MiB, and ends at 128. The other limits take memory of the task.",
        ),
    ),
)
_TYPES = {
    "string": "text",
    "boolean": "true or false",
    "number": "number",
    "integer": "whole number",
    "array": "list of texts",
    "object": "table of texts",
}


def _entries(model: type[Entries], schema: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The entries of a table, with the variable of each where any of them has one."""
    variables = {name: f"`{variable.name}`|" for name, variable in variables_of(model).items()}
    heading = "variable|" if variables else ""
    lines = [f"|entry|type|default|{heading}meaning|", f"|---|---|---|{'---|' if variables else ''}---|"]
    for name in names:
        entry = schema["properties"][name]
        if "$ref" in entry:  # a table, which is shown by itself
            continue
        default = f"`{_toml(entry['default'])}`" if "default" in entry else ""
        default = "needed" if name in schema.get("required", ()) else default
        about = _cell(entry["description"])
        lines.append(f"|`{name}`|{_type_of(entry)}|{default}|{variables.get(name, '|' if variables else '')}{about}|")
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
        others.append(("Older records", key["before"]))
    return "".join(f" {who}: {_value(value)}." for who, value in others)


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


def monitoring_page() -> str:
    """Return the page on monitoring with the tables of metrics written between its marks."""
    text = (CHECKOUT / "docs" / "reference" / MONITORING).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{metrics_part()}\n{END}{after}"


def metrics_part() -> str:
    """All metrics of `evenkeel metrics`: name, kind, unit, labels, meaning; and the values that labels take."""
    groups: dict[str, tuple[ExportedMetric, ...]] = {
        "The exporter": OF_THE_EXPORTER,
        "Clusters": OF_CLUSTERS,
        "What needs attention": tuple(need.metric for need in NEEDS),
        "The transparency log": OF_THE_LOG,
        "The last verify": OF_VERIFY,
    }
    lines = ["|metric|kind|unit|labels|meaning|", "|---|---|---|---|---|"]
    for title, metrics in groups.items():
        lines.append(f"|**{title}**|||||")
        for metric in metrics:
            mark = " †" if metric.name in EMITTED else ""
            labels = ", ".join(f"`{name}`" for name in metric.labels)
            lines.append(f"|`{metric.name}`{mark}|{metric.kind}|{metric.unit}|{labels}|{_cell(metric.meaning)}|")
    lines += ["", "|label|values|", "|---|---|"]
    lines += [f"|`{name}`|{values}|" for name, values in _LABELS.items()]
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
