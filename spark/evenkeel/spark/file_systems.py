"""The file systems of the Spark server: our Java classes in `java_sources`, and Hadoop's and Delta's settings for them.

- `LocalFiles` keeps files in folders. Hadoop's own class writes a `.crc` beside every file and starts a process for
  each file that it makes or renames, some 360 in a small cycle. Ours uses system calls. If two JVMs commit the same
  version of a table, one of them fails; with Hadoop's class one commit replaces the other.
- `ObjectStore` keeps files in a store that speaks S3. It reads keys from a file in the server's home with every request
  (`evenkeel.object_store.hand_over`), so keys can be renewed and are in no setting.
- `ObjectStoreCommits` is Delta's log store for S3. It asks the store to write a commit only if the version does not
  exist (`If-None-Match: *`), as deltalake does. Delta's own class looks first and then writes, and loses commits.
- `LakeLock` and `ObjectStoreLease` let one server at a time write a lake (`evenkeel.lake.one_writer`).

The server's JVM compiles them when it starts, with Janino, which Spark brings: no JDK is needed. Janino compiles Java
without type arguments and without variable arguments.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from evenkeel.object_store import FOLDER, REQUEST_SECONDS

_SOURCES = Path(__file__).with_name("java_sources")
_OBJECT_STORE = "ObjectStore"
"""Prefix of the names of the classes that need the jars for S3."""

_LOCAL = {
    "fs.file.impl": "evenkeel.LocalFiles",
    "fs.AbstractFileSystem.file.impl": "evenkeel.LocalFiles$Context",
}

# Hadoop repeats what the SDK has repeated: with the defaults of both an unresponsive store blocks a task for more than
# an hour. These settings end it after four minutes.
_S3 = {
    "fs.s3a.impl": "evenkeel.ObjectStore",
    "fs.AbstractFileSystem.s3a.impl": "evenkeel.ObjectStore$Context",
    "fs.s3a.aws.credentials.provider": "evenkeel.ObjectStore$Keys",
    "fs.s3a.connection.establish.timeout": "15s",  # smaller values are refused
    "fs.s3a.connection.timeout": f"{REQUEST_SECONDS}s",
    "fs.s3a.connection.request.timeout": "60s",
    "fs.s3a.connection.part.upload.timeout": "120s",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "3",
    "fs.s3a.retry.interval": "500ms",
    "fs.s3a.retry.throttle.limit": "6",
    "fs.s3a.retry.throttle.interval": "100ms",
    # Names of data files are new, and folders need no marker: no lookup is needed before a write.
    "fs.s3a.performance.flags": "create,delete,mkdir",
    "fs.s3a.connection.expect.continue": "false",
    "fs.s3a.audit.enabled": "false",
}

LOG_STORE_SETTING = "spark.delta.logStore.s3a.impl"
LOG_STORE = "evenkeel.ObjectStoreCommits"
"""The value of that setting under which no commit is lost."""


def settings(home: Path) -> dict[str, str]:
    """Return the Spark settings of a server whose home is `home`; none of them is secret."""
    hadoop = {
        **_LOCAL,
        **_S3,
        "evenkeel.object-stores": str(home / FOLDER),
        "fs.s3a.buffer.dir": str(home / "scratch" / "s3a"),
    }
    return {LOG_STORE_SETTING: LOG_STORE, **{f"spark.hadoop.{key}": value for key, value in hadoop.items()}}


def sources(*, with_object_store: bool) -> list[Path]:
    """Return the Java files; those that need the jars for S3 only if requested."""
    return [
        path for path in sorted(_SOURCES.glob("*.java")) if with_object_store or not path.name.startswith(_OBJECT_STORE)
    ]


def sources_digest() -> str:
    """Return SHA-256 (hex) of all Java files."""
    digest = hashlib.sha256()
    for path in sources(with_object_store=True):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_into(gateway: Any, classes: Path, *, with_object_store: bool) -> None:
    """Compile the Java files in a JVM into the folder `classes`, which is on that JVM's class path, and load them.

    Existing files are replaced. Raises Py4JJavaError if the classes do not fit the JVM's Hadoop.
    """
    jvm = gateway.jvm
    files = [jvm.java.io.File(str(path)) for path in sources(with_object_store=with_object_store)]
    array = gateway.new_array(jvm.java.io.File, len(files))
    for place, file in enumerate(files):
        array[place] = file
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setTargetVersion(8)
    compiler.setDestinationDirectory(jvm.java.io.File(str(classes)), False)
    compiler.compile(array)
    for path in sorted((classes / "evenkeel").glob("*.class")):
        jvm.java.lang.Class.forName(f"evenkeel.{path.stem}")
