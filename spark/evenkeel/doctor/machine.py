"""Checks of this machine: the package, Python and its packages, Java and its jars, the disk, files with secrets."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import evenkeel
from evenkeel.doctor.checks import CheckFinding, Site, fail, ok, skipped, some, warn
from evenkeel.object_store import is_object_store
from evenkeel.secret import FILE
from evenkeel.settings.operation import CONFIGURATION
from evenkeel.sources.collecting import configured_authentication
from evenkeel.spark.code import code_digest, code_version, source_root, suites_folder
from evenkeel.spark.jars import DELTA, OBJECT_STORE, cache_folder, jar_faults, locked_jars, server_java

PYTHON = (3, 11)
JAVA = 17
_PIN = re.compile(r"([A-Za-z0-9_.-]+)==([^;\s]+)")
_JAVA_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_LEAST_BYTES, _FEW_BYTES = 256 << 20, 2 << 30
_FOR_OTHERS = 0o077


def check_package(_: Site, __: str) -> CheckFinding:
    """The package: a checkout or an installed copy, one version only, and the expectations that validate needs."""
    folder = Path(evenkeel.__file__).resolve().parent
    kind = "a checkout" if (source_root().parent / "pyproject.toml").exists() else "an installed package"
    words = f"evenkeel {code_version()}, {kind} in {folder}, deciding code {code_digest()[:15]}"
    if not list(suites_folder().glob("*.json")):
        return fail(
            f"{words}: no expectations in {suites_folder()}",
            "validate needs them: copy `expectations/` of the same version, and let EVENKEEL_EXPECTATIONS name it",
        )
    installed = _installed_version()
    if installed not in (None, evenkeel.__version__):
        return warn(
            f"{words}; Python knows version {installed} as installed",
            "the checkout was updated: run `make setup`; or two copies are on the path: remove one",
        )
    return ok(words)


def _installed_version() -> str | None:
    try:
        return metadata.version("evenkeel")
    except metadata.PackageNotFoundError:
        return None


def check_python(_: Site, __: str) -> CheckFinding:
    """The version of Python."""
    words = f"Python {platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] == PYTHON:
        return ok(words)
    return fail(words, f"run it with Python {PYTHON[0]}.{PYTHON[1]}: Spark's workers and the pinned packages need it")


def check_packages(_: Site, __: str) -> CheckFinding:
    """The versions of the packages that this version was tried with."""
    pins = dict(_pins())
    if not pins:
        return skipped("neither the installed package nor a checkout says which versions it wants")
    wrong, missing = [], []
    for name, wanted in pins.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if version != wanted:
            wrong.append(f"{name} {version} in place of {wanted}")
    if not wrong and not missing:
        return ok(f"{len(pins)} packages as pinned")
    advice = "`make setup` in a checkout, or `pip install -r requirements.txt`"
    if missing:
        return fail(f"{some(missing)} missing" + (f"; {some(wrong)}" if wrong else ""), advice)
    return warn(some(wrong), advice)


def _pins() -> Iterator[tuple[str, str]]:
    """Package -> pinned version: of the checkout, else of the installed package."""
    project = source_root().parent / "pyproject.toml"
    if project.exists():
        wanted = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        wanted = metadata.requires("evenkeel") if _installed_version() else []
    for requirement in wanted or ():
        match = _PIN.match(requirement)
        if match is not None and "extra ==" not in requirement:
            yield match[1], match[2]


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
    jars = [*locked_jars(DELTA), *(locked_jars(OBJECT_STORE) if in_store else ())]
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
