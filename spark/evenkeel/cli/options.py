"""Options that several commands share, and the session that they run with."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, EngineError, SettingsError
from evenkeel.lake.controls import person
from evenkeel.lake.one_writer import demand_no_other, refusal_in
from evenkeel.lake.table_files import FolderFiles, files_of
from evenkeel.object_store import access, hand_over, is_object_store
from evenkeel.settings import read_overrides, registry, resolve, typed_overrides
from evenkeel.spark.home import Home, login
from evenkeel.spark.server import Engine, engine_for, status, why_ended
from evenkeel.spark.session import close, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.pulsar.admin import AdminConnection
    from evenkeel.sources.configuration import ClusterSource


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options for the source of snapshots, and the operator's settings."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--recording", metavar="DIR", help="a folder of snapshots of one cluster")
    source.add_argument("--config", metavar="FILE", help="a TOML file with clusters, their sources and settings")
    parser.add_argument(
        "--cluster", action="append", metavar="NAME", help="only this cluster (repeatable); renames a recording's"
    )
    parser.add_argument("--settings", metavar="FILE", help="a TOML file of settings under Pulsar's own keys")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="wins over --settings")


def add_on_record(parser: argparse.ArgumentParser, reason: str) -> None:
    """Add the options of a recorded control: the lake, the reason, and the author."""
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--reason", metavar="TEXT", help=reason)
    parser.add_argument("--by", metavar="NAME", help="author of the row, recorded beside the login of this shell")


def said_by(given: argparse.Namespace) -> str:
    """Return the author of a recorded row: the login that the system knows, and beside it the name in `--by`."""
    return person(login(), given.by)


def overrides_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return the operator's checked settings: those of the command line override those of the file."""
    overrides = read_overrides(given.settings) if given.settings else {}
    warn_without_effect(given.set)
    overrides |= typed_overrides(given.set, "--set")
    resolve(observed=None, overrides=overrides)
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in overrides.items()}


def warn_without_effect(pairs: Iterable[str]) -> None:
    """Warn once of each key in `KEY=VALUE` or `NAME:KEY=VALUE,…` texts that changes no decision."""
    named = {name for pair in pairs for name in re.findall(r"(\w+)\s*=", pair)}
    for name in sorted(named & registry().keys()):
        if not registry()[name].decides:
            print(f"evenkeel: {registry()[name].notes[0]}", file=sys.stderr)


def check_folder(path: str | Path, option: str) -> None:
    """Raise BadInput if `path` cannot be a folder: a file exists there, or it is not writable.

    A missing folder is fine: it is created. Object stores (`s3a://…`) are not checked.
    """
    if not isinstance(files_of(str(path)), FolderFiles):
        return
    folder = Path(str(path).removeprefix("file://")).absolute()
    nearest = next(existing for existing in (folder, *folder.parents) if existing.exists())
    if not nearest.is_dir():
        raise BadInput(f"{option} {path}: {nearest} is a file, and a folder is needed there")
    refusal = f"{option} {path}: nothing may be written to {nearest}"
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise BadInput(refusal)
    if nearest != folder:
        try:
            TemporaryDirectory(dir=nearest).cleanup()
        except OSError as error:  # a file system may refuse whom the rights allow
            raise BadInput(f"{refusal}: {error.strerror}") from error


def check_file(path: str | Path, option: str) -> None:
    """Raise BadInput if no file can be written at `path`: it is a folder, or its own folder cannot be created."""
    if Path(path).is_dir():
        raise BadInput(f"{option} {path}: is a folder, and a file is to be written")
    check_folder(Path(path).absolute().parent, option)


def engine_home() -> Path:
    """Return the parent of the local server's folder `.evenkeel`: `$EVENKEEL_HOME`, else the working directory."""
    return Path(os.environ.get("EVENKEEL_HOME", "."))


@contextmanager
def session(name: str, lake: str | None = None, *, writes: bool = False, brief: bool = False) -> Iterator[SparkSession]:
    """Open a session at `$EVENKEEL_SPARK` (sc://host:port or a master), else at the local server.

    If the local server was not running, it is started, and ended afterwards; `brief`: there is little to do. It gets
    the credentials of this environment for a `lake` in an object store; SettingsError without any. `writes`: the block
    writes to the lake. Then LakeError is raised before a server is started if another server holds the lake, and if a
    commit is refused for that reason. EngineError is raised if the local server ends before the block does.
    """
    url = os.environ.get("EVENKEEL_SPARK")
    if url:
        with _connected(url, name) as spark:
            yield spark
        return
    if lake is not None and is_object_store(lake):
        access()  # credential errors are reported before a server is started
    if lake is not None and writes:
        demand_no_other(lake, status(engine_home()).pid)
    if status(engine_home()).state != "running":
        print("starting a Spark server (`evenkeel engine start` keeps one)", file=sys.stderr, flush=True)
    with engine_for(engine_home(), brief=brief) as engine:
        if lake is not None:
            hand_over(Home.of(engine.home).folder, lake)
        with _connected(engine.url, name, engine) as spark:
            yield spark


@contextmanager
def _connected(url: str, name: str, engine: Engine | None = None) -> Iterator[SparkSession]:
    """Open a session whose errors are shown in one line if the `engine` has ended or refuses."""
    spark = connect(url, name)
    try:
        yield spark
    except Exception as error:
        ended = None if engine is None else why_ended(engine)
        refusal = refusal_in(error) if ended is None else EngineError(ended)
        if refusal is None:
            raise
        raise refusal from error
    finally:
        close(spark)


# Where the brokers are, for commands that talk to them: from a configuration, or by their addresses.

_WITH_ADMIN = ("token_env", "ca_file", "broker_url")


def add_brokers(parser: argparse.ArgumentParser) -> None:
    """A configuration, or addresses."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", metavar="FILE", help="a TOML file with clusters; --cluster says which")
    source.add_argument("--admin", metavar="URL", nargs="+", help="web addresses of brokers, tried in order")


def add_admin_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that belong to addresses."""
    parser.add_argument(
        "--token-env",
        metavar="VAR",
        help="with --admin: the variable with the token, or with JSON of auth_plugin and auth_params",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="with --admin: certificates to trust")
    parser.add_argument(
        "--broker-url", metavar="URL", help="with --admin: the address of a broker, https://{host}:8443"
    )


def configured_source(configuration: str, cluster: str) -> ClusterSource:
    """Return the entry of a cluster in a configuration file."""
    from evenkeel.sources.configuration import choose, read_configuration

    (source,) = choose(read_configuration(configuration), [cluster])
    return source


def refuse_admin_options(given: argparse.Namespace) -> None:
    """Refuse the options that belong to addresses if there is a configuration, which contains them."""
    for option in _WITH_ADMIN:
        if getattr(given, option):
            raise SettingsError(f"--{option.replace('_', '-')} goes with --admin: a configuration says it itself")


def connection_by_address(given: argparse.Namespace) -> AdminConnection:
    """Return the connection made by --admin and its options."""
    from evenkeel.pulsar.admin import AdminConnection
    from evenkeel.pulsar.admin.authentication import Authentication
    from evenkeel.pulsar.admin.connection import from_variable

    credentials = from_variable(given.token_env) if given.token_env else None
    if given.token_env and credentials is None:
        raise SettingsError(
            f"--token-env {given.token_env}: the variable is not set, and {given.token_env}_FILE neither"
        )
    authentication = Authentication() if credentials is None else credentials.authentication
    return AdminConnection(
        tuple(given.admin), authentication=authentication, ca_file=given.ca_file, broker_url=given.broker_url
    )
