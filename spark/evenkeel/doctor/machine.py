"""Checks of this machine: the package, Python and its packages, Java and its jars, the disk, files with secrets."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import evenkeel
from evenkeel.doctor.checks import CheckFinding, Site, fail, ok, skipped, some, warn
from evenkeel.object_store import is_object_store
from evenkeel.secret import FILE
from evenkeel.settings.operation import CONFIGURATION
from evenkeel.sources.collecting import configured_authentication
from evenkeel.spark.code import code_digest, code_version, source_root, suites_folder
from evenkeel.spark.jars import (
    OBJECT_STORE,
    cache_folder,
    delta_pins,
    installed_version,
    jar_faults,
    locked_jars,
    server_java,
)

PYTHONS = ((3, 11), (3, 13))
JAVA = 17
_JAVA_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_LEAST_BYTES, _FEW_BYTES = 256 << 20, 2 << 30
_FOR_OTHERS = 0o077


def check_package(_: Site, __: str) -> CheckFinding:
    """The package: a checkout or an installed copy, one version only, and the expectations that validate needs."""
    folder = Path(evenkeel.__file__).resolve().parent
    kind = "a checkout" if (source_root().parent / "pyproject.toml").exists() else "an installed package"
    words = f"evenkeel {code_version()}, {kind} in {folder}, deciding code {code_digest()[:20]}"
    if not list(suites_folder().glob("*.json")):
        return fail(
            f"{words}: no expectations in {suites_folder()}",
            "validate needs them: copy `expectations/` of the same version, and let EVENKEEL_EXPECTATIONS name it",
        )
    installed = installed_version("evenkeel")
    if installed not in (None, evenkeel.__version__):
        return warn(
            f"{words}; Python knows version {installed} as installed",
            "the checkout was updated: run `make setup`; or two copies are on the path: remove one",
        )
    return ok(words)


def check_python(_: Site, __: str) -> CheckFinding:
    """The version of Python."""
    words = f"Python {platform.python_version()} ({sys.executable})"
    if PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return ok(words)
    (major, least), (_major, most) = PYTHONS
    return fail(words, f"run it with a Python from {major}.{least} to {major}.{most}")


def check_packages(_: Site, __: str) -> CheckFinding:
    """The versions of the packages, against the ranges that Evenkeel's metadata name."""
    if installed_version("evenkeel") is None:
        return skipped("evenkeel is not installed here, so no metadata say which packages it needs")
    wrong, missing = [], []
    needed = [need for need in map(Requirement, metadata.requires("evenkeel") or ()) if _is_needed(need)]
    for need in needed:
        found = installed_version(need.name)
        if found is None:
            missing.append(need.name)
        elif not need.specifier.contains(found, prereleases=True):
            wrong.append(f"{need.name} {found}, outside {need.specifier}")
    engine, client = installed_version("pyspark"), installed_version("pyspark-client")
    if engine not in (None, client):
        wrong.append(f"pyspark {engine} beside pyspark-client {client}, which share files")
    if not wrong and not missing:
        return ok(f"{len(needed)} packages, each of a version that Evenkeel can use")
    words = "; ".join([*([f"{some(missing)} missing"] if missing else []), *([some(wrong)] if wrong else [])])
    return fail(words, "`make setup` in a checkout, or `pip install evenkeel` with the constraints of your Airflow")


def _is_needed(need: Requirement) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": ""})


def check_java(_: Site, __: str) -> CheckFinding:
    """The JVM that the local Spark server runs on."""
    java = server_java()
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        return fail(f"{java} does not say its version", "let EVENKEEL_JAVA name a Java 17, or unset it")
    words = f"Java {match[1]}{match[2]} ({java})"
    if int(match[1]) == JAVA:
        return ok(words)
    return fail(words, f"a Java {JAVA} is needed: let EVENKEEL_JAVA name one, or unset it to use the JVM from PyPI")


def check_jars(site: Site, _: str) -> CheckFinding:
    """Check that Delta's jars, and those for a lake in an object store, exist and are the pinned ones."""
    in_store = any(is_object_store(lake) for lake in (site.lake, *site.lakes.values()) if lake is not None)
    jars = [*delta_pins(), *(locked_jars(OBJECT_STORE) if in_store else ())]
    faults = jar_faults(jars)
    if not faults:
        return ok(f"{len(jars)} jars in {cache_folder() / 'jars'}, with the pinned digests")
    more = f" {len(faults) - 1} more are missing or wrong." if len(faults) > 1 else ""
    return fail(
        f"{faults[0]}{more}", "`make setup` fetches what is missing; a file that is not the pinned one remove first"
    )


def check_disk(site: Site, _: str) -> CheckFinding:
    """Room on the disks of the lake, of the server's state, of the landing folders and of temporary files."""
    places = {"temporary files": Path(site.environment.get("TMPDIR") or "/tmp"), "the server's state": site.home}
    lakes: dict[str, str | None] = {f"the lake {name}": lake for name, lake in site.lakes.items()}
    lakes = lakes or {"the lake": site.lake}
    for label, lake in lakes.items():
        if lake is not None and not is_object_store(lake):
            places[label] = Path(lake.removeprefix("file://"))
    for source in site.sources or ():
        if source.live is not None or source.zone is not None:
            places[f"the landing folder of {source.cluster}"] = source.recording
    free: dict[int, tuple[str, int]] = {}
    for label, place in places.items():
        existing = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
        free.setdefault(os.stat(existing).st_dev, (f"{label} ({existing})", shutil.disk_usage(existing).free))
    tight, room = min(free.values(), key=lambda place_and_room: place_and_room[1])
    words = f"{room / (1 << 30):.1f} GiB free for {tight}, the least of {len(free)} disks"
    if room < _LEAST_BYTES:
        return fail(words, "make room: a cycle that cannot write its rows fails")
    return ok(words) if room >= _FEW_BYTES else warn(words, "make room, or let `upkeep` keep less")


def check_secret_files(site: Site, _: str) -> CheckFinding:
    """Check that files named by variables or the configuration for tokens and keys exist, for their owner alone."""
    named = {name: site.environment[name] for name in site.environment if name.startswith("EVENKEEL_")}
    files = {name: Path(text) for name, text in named.items() if name.endswith(FILE) and text}
    if named.get("EVENKEEL_LOG_KEY", "").startswith("file:"):
        files["EVENKEEL_LOG_KEY"] = Path(named["EVENKEEL_LOG_KEY"].removeprefix("file:"))
    files.pop("EVENKEEL_PAUSED_FILE", None)
    for source in site.sources or ():
        for file in configured_authentication(source.live).files if source.live is not None else ():
            files[f"auth_params of {source.cluster}"] = file
    if not files:
        return skipped(f"no variable ({FILE}) and no entry of {CONFIGURATION} names a file with a secret")
    open_to_others = []
    for name, file in sorted(files.items()):
        if not file.is_file() or not os.access(file, os.R_OK):
            return fail(f"{name} names {file}, which is missing or cannot be read", "put the file there, for this user")
        if file.stat().st_mode & _FOR_OTHERS:
            open_to_others.append(f"{file} ({file.stat().st_mode & 0o777:04o}, {name})")
    if open_to_others:
        return warn(
            f"others than the owner may read or write {some(open_to_others)}",
            "chmod 600; if another user may have read it, make a new secret",
        )
    return ok(f"{len(files)} files with secrets, for their owner alone")
