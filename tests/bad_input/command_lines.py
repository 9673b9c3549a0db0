"""Command lines that are wrong in one word: every command, its options, and what may be given to them.

`BASES`: a command line of each command that is right as far as it goes. Words in braces stand for places that the test
makes. What is wrong must be told before Spark is started and before a broker or a queue is asked.
"""

from collections.abc import Iterator, Mapping

from tests.bad_input.values import NAMES, NEVER_FINITE, NO_NUMBERS, TIMES, TOO_LONG_INTS, TOO_SMALL

AGENT = (
    "agent --cluster lab --queue https://sqs.x/1/q.fifo --reports https://sqs.x/1/r.fifo --admin http://127.0.0.1:9 "
    "--ledger {new}/ledger.db"
)
COLLECT = "collect --admin http://127.0.0.1:9 --to {new}"
BASES = {
    "rebalance": "rebalance --recording {recording} --lake {new}",
    "configured": "rebalance --config {config} --lake {new}",
    "verify": "verify --lake {lake}",
    "replay": "replay --lake {lake}",
    "simulate": "simulate --cycles 2 --bundles 4 --strategy AvgShedder",
    "recorded": "simulate --lake {lake}",
    "explain": "explain b1:1 --lake {lake}",
    "trace": "trace b1:1 --lake {lake}",
    "trace-broker": "trace --broker b1:1 --lake {lake}",
    "report": "report --lake {lake} --out {new}",
    "data-docs": "data-docs --lake {lake} --out {new}",
    "export": "export --lake {lake} --from 2026-11-21 --to 2026-11-21 --out {new}",
    "upkeep": "upkeep --lake {lake}",
    "storage": "storage --lake {lake}",
    "heat": "heat --lake {lake}",
    "wish": "wish unload acme/orders -b 0x00000000_0x40000000 --cluster lab --lake {lake}",
    "split": "wish split acme/orders -b 0x00000000_0x40000000 --cluster lab --lake {lake}",
    "wishes": "wish list --lake {lake}",
    "pause": "pause lab --lake {lake}",
    "takeover": "takeover lab --config {config} --lake {lake}",
    "handback": "handback lab --config {config} --lake {lake}",
    "agent": AGENT,
    "collect": COLLECT,
}

_INTS = NO_NUMBERS | NEVER_FINITE | TOO_SMALL | TOO_LONG_INTS | {"float": "1.5"}
_FLOATS = NO_NUMBERS | NEVER_FINITE | TOO_SMALL
_NO_CUTS = {name: text for name, text in NO_NUMBERS.items() if name in ("word", "two", "letters-behind")} | NEVER_FINITE
_LONG = {"long": "/tmp/" + "n" * 10_000, "file": "{file}", "below-file": "{file}/below"}
_NO_LAKE = {**_LONG, "gone": "{gone}", "surrogate": "{gone}\udcff", "control": "{gone}\x1b[31m\nx", "empty": ""}
_NO_FILE = {**_NO_LAKE, "folder": "{empty}", "bytes": "{bytes}"}
_NO_RECORDING = {**_NO_LAKE, "empty-folder": "{empty}"}
_NO_URL = {
    "empty": "",
    "no-scheme": "localhost",
    "file": "file:///etc/passwd",
    "no-host": "http://",
    "credentials": "http://user:word@b1:8080",
    "port": "http://b1:99999",
    "port-word": "http://b1:http",
    "brackets": "http://[b1",
    "query": "http://b1:8080?x=1",
    "api-path": "http://b1:8080/admin/v2",
    "blank": "http://b 1:8080",
    "long": "x" * 10_000,
    "surrogate": "http:/\udcff",
    "control": "\x1b[31m",
}
_ZONES = {**NAMES, "not-one": "Europe/Berln", "absolute": "/etc/localtime"}
_SETTINGS = {
    "no-equals": "minUnloadMessage",
    "unknown": "minUnloadMesage=3",
    "empty-key": "=3",
    "empty": "",
    "word": "minUnloadMessage=many",
    "nan": "loadBalancerBrokerThresholdShedderPercentage=nan",
    "digits-400": "minUnloadMessage=" + "9" * 400,
    "digits-5000": "minUnloadMessage=" + "9" * 5_000,
    "negative": "loadBalancerBrokerThresholdShedderPercentage=-1",
    "float-for-int": "minUnloadMessage=1.5",
    "strategy": "loadBalancerLoadSheddingStrategy=Nobody",
    "switch": "loadBalancerSheddingEnabled=true",
    "control": "\x1b[31m=1",
    "surrogate": "min\udcff=1",
    "long": "n" * 10_000 + "=1",
    "generation": "evenkeelPulsarVersion=3",
}
_RANGES = {
    **NAMES,
    "backwards": "0x40000000_0x00000000",
    "one-end": "0x00000000",
    "decimal-behind": "0x00000000_9999999999999",
    "beyond": "0x00000000_0x1ffffffff",
    "empty-range": "0x40000000_0x40000000",
}
_NAMESPACES = {**NAMES, "one-part": "acme", "three-parts": "a/b/c", "no-tenant": "/orders", "no-name": "acme/"}
_PLANS = {name: text for name, text in NAMES.items() if name != "long"} | {"not-on-record": "abcdef123", "short": "ab"}
_VARIANTS = {"no-colon": "AvgShedder", "empty": "", "no-value": "a:minUnloadMessage", "unknown": "a:minUnloadMesage=3"}

OPTIONS: dict[str, dict[str, Mapping[str, str]]] = {
    "rebalance": {
        "--at": TIMES,
        "--recording": _NO_RECORDING,
        "--lake": _LONG,
        "--set": _SETTINGS,
        "--settings": _NO_FILE,
        "--mode": NAMES,
    },
    "configured": {"--config": _NO_FILE, "--cluster": NAMES, "--at": TIMES, "--set": _SETTINGS},
    "verify": {"--lake": _NO_LAKE, "--cluster": NAMES, "--from": TIMES, "--to": TIMES, "--depth": NAMES},
    "replay": {
        "--lake": _NO_LAKE,
        "--cluster": NAMES,
        "--from": TIMES,
        "--to": TIMES,
        "--strategy": NAMES,
        "--set": _SETTINGS,
        "--variant": _VARIANTS,
        "--limit": _FLOATS,
        "--out": _LONG,
    },
    "simulate": {
        "--scenario": NAMES,
        "--seed": NO_NUMBERS | NEVER_FINITE,
        "--cycles": _INTS,
        "--every": _FLOATS,
        "--brokers": _INTS,
        "--bundles": _INTS,
        "--strategy": NAMES,
        "--set": _SETTINGS,
        "--variant": _VARIANTS,
        "--limit": _FLOATS,
        "--out": _LONG,
    },
    "recorded": {"--lake": _NO_LAKE, "--cluster": NAMES, "--from": TIMES, "--to": TIMES},
    "explain": {"--at": TIMES, "--from": TIMES, "--to": TIMES, "--cluster": NAMES, "--tz": _ZONES, "--lake": _NO_LAKE},
    "trace": {"--at": TIMES, "--cluster": NAMES, "--tz": _ZONES, "--lake": _NO_LAKE},
    "trace-broker": {"--from": TIMES, "--to": TIMES, "--broker": NAMES},
    "report": {"--cycle": TIMES, "--cluster": NAMES, "--lake": _NO_LAKE, "--recording": _NO_RECORDING},
    "data-docs": {"--cycle": TIMES, "--cluster": NAMES, "--lake": _NO_LAKE, "--out": _LONG},
    "export": {"--from": TIMES, "--to": TIMES, "--cluster": NAMES, "--lake": _NO_LAKE, "--out": _LONG},
    "upkeep": {"--lake": _NO_LAKE, "--audit-days": _INTS, "--observed-days": _INTS},
    "storage": {"--lake": _NO_LAKE},
    "heat": {"--lake": _NO_LAKE, "--cluster": NAMES},
    "wish": {"--at": TIMES, "-b": _RANGES, "--lake": _NO_LAKE},
    "split": {"-b": _RANGES, "-sb": _NO_CUTS, "-bt": NAMES},
    "wishes": {"--lake": _NO_LAKE},
    "pause": {"--lake": _NO_LAKE, "--config": _NO_FILE},
    "takeover": {"--config": _NO_FILE},
    "handback": {"--lake": _NO_LAKE, "--config": _NO_FILE},
    "agent": {
        "--admin": _NO_URL,
        "--clock-tolerance": NO_NUMBERS | NEVER_FINITE | {"negative": "-1"},
        "--in-flight": _INTS,
        "--per-second": _FLOATS,
        "--longest-request": _FLOATS,
        "--visibility": _INTS,
        "--until-idle": NO_NUMBERS | NEVER_FINITE | {"negative": "-1"},
        "--keys": NAMES,
        "--token-env": NAMES,
        "--ca-file": _NO_FILE,
        "--broker-url": _NO_URL,
    },
    "collect": {
        "--admin": _NO_URL,
        "--count": _INTS,
        "--every": _FLOATS,
        "--full-every": _INTS,
        "--token-env": NAMES,
        "--ca-file": _NO_FILE,
        "--broker-url": _NO_URL,
        "--to": _LONG,
    },
}
"""Command, option, and what is given to it by name."""

POSITIONAL: dict[str, Mapping[str, str]] = {
    "explain {bad} --lake {lake}": NAMES,
    "trace {bad} --lake {lake}": NAMES,
    "trace --write {bad} --lake {lake}": NAMES,
    "trace --snapshot {bad} --lake {lake}": NAMES,
    "approve {bad} --lake {lake}": _PLANS,
    "reject {bad} --lake {lake}": _PLANS,
    "pause {bad} --lake {lake}": NAMES,
    "resume {bad} --lake {lake}": NAMES,
    "takeover {bad} --config {config} --lake {lake}": NAMES,
    "handback {bad} --config {config} --lake {lake}": NAMES,
    "wish unload {bad} --cluster lab --lake {lake}": _NAMESPACES,
    "wish split {bad} -bt HOT --cluster lab --lake {lake}": _NAMESPACES,
    "{bad}": NAMES,
    "engine {bad}": NAMES,
}
"""Command lines with a word that is wrong."""

NOT_BAD = {
    # An empty text stands for an option that is not given, an empty folder for the one here.
    *(("rebalance", "--settings", "empty"), ("simulate", "--scenario", "empty"), ("recorded", "--lake", "empty")),
    *(("storage", "--lake", "empty"), ("report", "--recording", "empty")),
}


def command_lines() -> Iterator[tuple[str, list[str], str]]:
    """Id, words, and the value that is wrong."""
    for command, options in OPTIONS.items():
        for option, values in options.items():
            for name, value in values.items():
                if (command, option, name) not in NOT_BAD:
                    yield f"{command} {option} {name}", _words(BASES[command], option, value), value
    for line, values in POSITIONAL.items():
        place = line.replace("{bad}", "WORD").partition(" --lake")[0]
        for name, value in values.items():
            words = [value if word == "{bad}" else word for word in line.split()]
            yield f"{place} {name}", words, value


def _words(base: str, option: str, value: str) -> list[str]:
    """The base with this option, in place of its own where it has it."""
    words = base.split()
    if option in words:
        del words[words.index(option) : words.index(option) + 2]
    # In one word, so that a value that begins with a dash is none of argparse's options.
    return [*words, f"{option}={value}"] if option.startswith("--") else [*words, option, value]
