"""Writes the lock file of a release: `python -m devtools.lab.relock 4.2.4`. Needs `mvn` and a network; for developers.

Maven resolves a broker's run-time dependencies, with the versions that the release was built with. Left out are jars
that no cluster of the lab loads: other systems' native libraries, and unused features.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from devtools.lab.releases import lock_of

MAVEN_LIST = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:list"
OTHER_SYSTEMS = ("osx", "windows", "macos")
UNUSED_GROUPS = frozenset(
    {
        *("org.rocksdb", "io.github.oxia-db", "org.apache.curator"),  # other stores for metadata and ledger indexes
        *("io.grpc", "com.google.api.grpc", "com.google.auth", "com.google.http-client", "io.opencensus"),
        *("io.vertx", "io.reactivex.rxjava3"),  # the bookie's HTTP server
        *("com.squareup.okhttp3", "com.squareup.okio", "org.jetbrains.kotlin", "net.bytebuddy"),  # functions
        *("com.github.oshi", "net.java.dev.jna"),
    }
)

# An unused store of 4.0 (etcd) names further repositories. A repository of the same name replaces them.
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>evenkeel</groupId><artifactId>lab</artifactId><version>1</version><packaging>pom</packaging>
  <repositories>
    <repository><id>confluent</id><url>file:///nowhere</url></repository>
    <repository><id>maven.restlet.org</id><url>file:///nowhere</url></repository>
  </repositories>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>VERSION</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>org.apache.pulsar</groupId><artifactId>pulsar-broker</artifactId><version>VERSION</version>
      <exclusions>
        <exclusion><groupId>org.apache.pulsar</groupId><artifactId>jetcd-core-shaded</artifactId></exclusion>
        <exclusion><groupId>io.kubernetes</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j2-impl</artifactId></dependency>
  </dependencies>
</project>
"""


def main(version: str) -> int:
    """Write the lock and report how large the jars are."""
    with tempfile.TemporaryDirectory() as folder:
        files = _resolved(version, Path(folder))
        lines = sorted(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for name, path in files.items())
        size = sum(path.stat().st_size for path in files.values())
    lock_of(version).write_text("\n".join(lines) + "\n")
    print(f"{lock_of(version)}: {len(lines)} jars, {size / 1e6:.0f} MB")
    return 0


def _resolved(version: str, folder: Path) -> dict[str, Path]:
    """Jars in Maven's local repository by `group:artifact:version[:classifier]`."""
    (folder / "pom.xml").write_text(PROJECT.replace("VERSION", version))
    listing = folder / "list"
    options = [f"-DoutputFile={listing}", "-DincludeScope=runtime", "-DoutputAbsoluteArtifactFilename=true"]
    subprocess.run(["mvn", "-B", "-q", "-f", str(folder / "pom.xml"), MAVEN_LIST, *options], check=True)
    jars = {}
    for line in listing.read_text().splitlines():
        parts = line.strip().split(":")  # group:artifact:jar[:classifier]:version:scope:file
        if len(parts) < 6:
            continue
        group, artifact, *classifier, release = [*parts[:2], *parts[3:-2]]
        native = artifact + "".join(classifier)
        if group not in UNUSED_GROUPS and not any(system in native for system in OTHER_SYSTEMS):
            jars[":".join([group, artifact, release, *classifier])] = Path(parts[-1].partition(" ")[0])
    return jars


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
