"""Which tests run in one process: `make test` starts a process per core and deals whole groups out to them.

Airflow's service, the real Pulsar clusters, the lakes of upkeep and of replays and the cycle that is carried out are
started or written once in a process, so their tests are a group; all others go by file. What a group has started ends
with its last test and not with the run: three brokers that nobody asks any more still take a quarter of a core.
"""

from contextlib import ExitStack

_ACTING = ("acting", "harm_watch", "killed", "publish_log", "trouble")
_TOGETHER = {
    "tests/dags/": "dags",
    "tests/e2e/": "pulsar",
    "tests/devtools/test_lab.py": "pulsar",
    "tests/steering/queue/test_agent_on_pulsar.py": "pulsar",
    "tests/maintenance/": "maintenance",
    "tests/object_store/": "object store",
    "tests/spark_cluster/": "cluster",
    "tests/replay/test_open_loop.py": "replay",
    "tests/replay/test_results.py": "replay",
    "tests/replay/test_what_if_page.py": "replay",
    "tests/pipeline/test_killed_tasks.py::test_a_spark_server": "killed server",
    **dict.fromkeys((f"tests/publish/test_{name}.py" for name in _ACTING), "acting"),
}
# The real brokers come once Airflow is done or nearly so: both at once are more than two cores can carry in time.
_LONGEST_FIRST = (
    "dags",
    "maintenance",
    "tests/verify/",
    "acting",
    "replay",
    "tests/tutorial/test_steps",
    "pulsar",
    "killed server",
    "cluster",
    "tests/pipeline/",
    "tests/steering/queue/",
    "tests/plugins/",
    "tests/report/",
    "tests/ingest/",
    "tests/lake/",
    "tests/spark/",
    "object store",
    "tests/doctor/",
    "tests/validate/",
)
_RUNNING = ExitStack()


def group_of(nodeid: str) -> str:
    """The group of a test."""
    return next((group for start, group in _TOGETHER.items() if nodeid.startswith(start)), nodeid.split("::")[0])


def place_of(nodeid: str) -> int:
    """What takes longest begins first; of others it does not matter."""
    group = group_of(nodeid)
    return next((n for n, start in enumerate(_LONGEST_FIRST) if group.startswith(start)), len(_LONGEST_FIRST))


def until_the_group_ends() -> ExitStack:
    """What is entered here is left after the last test of the group that runs now."""
    return _RUNNING


def after(nodeid: str, following: str | None) -> None:
    """Ends what a group has started, if the next test is none of it."""
    if following is None or group_of(following) != group_of(nodeid):
        _RUNNING.close()
