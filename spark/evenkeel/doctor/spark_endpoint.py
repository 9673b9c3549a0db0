"""Checks of the Spark endpoint: which one, whether it answers, its version, and the code of its workers."""

from __future__ import annotations

from evenkeel.doctor.aside import AsideFailed, asked_aside
from evenkeel.doctor.findings import CheckFinding, Site, fail, ok, skipped
from evenkeel.spark.code import versions
from evenkeel.spark.command import connect_url, without_token
from evenkeel.spark.home import Home
from evenkeel.spark.server import status

SPARK_SECONDS = 60.0
WORKERS_SECONDS = 90.0
_SIDE = "evenkeel.doctor.spark_side"


def check_spark(site: Site, _: str) -> CheckFinding:
    """The endpoint of EVENKEEL_SPARK, else the local server: reachable with the token, and of the client's version."""
    found = endpoint(site)
    if isinstance(found, CheckFinding):
        return found
    shown = without_token(found)
    try:
        answer = asked_aside(_SIDE, {"url": found}, SPARK_SECONDS - 5)
    except AsideFailed as error:
        return fail(f"{shown} does not answer: {error}", _advice(site))
    wanted = versions()["pyspark"].decode()
    if answer["version"] != wanted:
        return fail(f"{shown} runs Spark {answer['version']}, and this client is {wanted}", "run both of one version")
    return ok(f"{shown} answers, Spark {wanted}")


def check_workers(site: Site, _: str) -> CheckFinding:
    """The Python workers of that endpoint: whether they have this client's code."""
    found = endpoint(site)
    if isinstance(found, CheckFinding):
        return skipped("no server runs: a new one has this code")
    try:
        said = str(asked_aside(_SIDE, {"url": found, "workers": True}, WORKERS_SECONDS - 5)["workers"])
    except AsideFailed as error:
        return fail(f"{without_token(found)} does not answer: {error}", _advice(site))
    return ok("the workers have this client's code") if not said else fail(said, "")


def endpoint(site: Site) -> str | CheckFinding:
    """The connection string, with its token: secret. A finding where there is no server to be asked."""
    given = site.environment.get("EVENKEEL_SPARK")
    if given:
        return given
    if not (site.home / ".evenkeel").is_dir():
        return ok("no server runs here; a command starts one and ends it, `evenkeel engine start` keeps one")
    found = status(site.home)
    if found.url is None or found.state == "starting":
        return ok(f"the local server is {found.state}; a command starts one, `evenkeel engine start` keeps one")
    if found.state == "stale":
        return ok(f"the local server at {found.url} is of other code; the next command replaces it")
    return connect_url(int(found.url.rpartition(":")[2]), Home.of(site.home).token())


def _advice(site: Site) -> str:
    if site.environment.get("EVENKEEL_SPARK"):
        return "check EVENKEEL_SPARK, EVENKEEL_SPARK_TOKEN and the server's log"
    return "`evenkeel engine stop`, and run it again"
