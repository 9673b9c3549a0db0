"""How the Spark server keeps files in folders: without a checksum file beside each, and without a process for each.

Hadoop writes a `.crc` beside every file, and starts `chmod` for each file that it makes and `readlink` for each that it
renames: some 360 processes in a small cycle. The Java class here does the same by system calls. Two JVMs that commit
the same version of a table at once are safe with it: one of them fails, where Hadoop replaces one commit by the other.
The JVM compiles the class when it starts, by the Janino that Spark brings, so that no JDK is needed.

Before its first commit to a lake the JVM takes the lake's lock (`evenkeel.lake.one_writer`) and keeps it until it ends;
while another has it, every commit is refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_CLASS = "evenkeel.LocalFiles"

SETTINGS = {
    "spark.hadoop.fs.file.impl": _CLASS,
    "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{_CLASS}$Context",
}
"""Spark settings by which Hadoop takes the class for `file:`, as file system and as file context (Delta's commits)."""

SOURCE = r"""
package evenkeel;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Writes no checksum files and asks for none; those of earlier versions stay hidden and go with their files. */
public class LocalFiles extends LocalFileSystem {

    public LocalFiles() {
        super(new Plain());
        setWriteChecksum(false);
    }

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
        super.initialize(uri, conf);
        setVerifyChecksum(false);
    }

    /** The files themselves; reads and sets modes by system calls where Hadoop starts ls, readlink and chmod. */
    public static class Plain extends RawLocalFileSystem {

        /** As chmod(1) does with four digits, leaves the bits of a folder by which new files take over its group. */
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            java.nio.file.Path place = pathToFile(path).toPath();
            int mode = permission.toShort();
            if (Files.isDirectory(place)) {
                mode |= ((Integer) Files.getAttribute(place, "unix:mode")).intValue() & 06000;
            }
            Files.setAttribute(place, "unix:mode", Integer.valueOf(mode));
        }

        @Override
        public FileStatus getFileStatus(Path path) throws IOException {
            File file = pathToFile(path);
            Map found;
            try {
                found = Files.readAttributes(
                    file.toPath(), "unix:mode,size,isDirectory,lastModifiedTime,lastAccessTime");
            } catch (FileSystemException error) {
                // Another may have made the file since it was asked for; Delta fails on any other exception.
                if (!(error instanceof NoSuchFileException) && file.exists()) {
                    throw error;
                }
                throw new FileNotFoundException("File " + path + " does not exist");
            }
            return new Status(
                ((Long) found.get("size")).longValue(),
                ((Boolean) found.get("isDirectory")).booleanValue(),
                getDefaultBlockSize(path),
                ((FileTime) found.get("lastModifiedTime")).toMillis(),
                ((FileTime) found.get("lastAccessTime")).toMillis(),
                new FsPermission((short) (((Integer) found.get("mode")).intValue() & 01777)),
                makeQualified(new Path(file.getPath())));
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean isLink = Files.isSymbolicLink(pathToFile(path).toPath());
            return isLink ? super.getFileLinkStatus(path) : getFileStatus(path);
        }

        @Override
        public FileStatus[] listStatus(Path path) throws IOException {
            return pathToFile(path).isDirectory() ? super.listStatus(path) : new FileStatus[] {getFileStatus(path)};
        }
    }

    /** Finds the names of owner and group when somebody asks. */
    public static class Status extends FileStatus {

        Status(long size, boolean isFolder, long block, long modified, long read, FsPermission mode, Path path) {
            super(size, isFolder, 1, block, modified, read, mode, null, null, path);
        }

        @Override
        public String getOwner() {
            if (super.getOwner().isEmpty()) {
                setOwner(name("unix:owner"));
            }
            return super.getOwner();
        }

        @Override
        public String getGroup() {
            if (super.getGroup().isEmpty()) {
                setGroup(name("unix:group"));
            }
            return super.getGroup();
        }

        private String name(String attribute) {
            try {
                return Files.getAttribute(new File(getPath().toUri().getPath()).toPath(), attribute).toString();
            } catch (IOException error) {
                return "";
            }
        }
    }

    /** What Delta commits through: a file gets its name at once, and only if nobody else has it. */
    public static class Context extends DelegateToFileSystem {

        public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new LocalFiles(), conf, "file", false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public boolean isValidName(String name) {
            return true;
        }

        @Override
        public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
            LocalFiles files = (LocalFiles) fsImpl;
            java.nio.file.Path source = files.pathToFile(from).toPath();
            java.nio.file.Path target = files.pathToFile(to).toPath();
            boolean isFile = Files.isRegularFile(source, new LinkOption[] {LinkOption.NOFOLLOW_LINKS});
            if (!isFile || Files.isDirectory(target)) {
                super.renameInternal(from, to, overwrite);
                return;
            }
            if (isCommit(target)) {
                Writer.hold(target.getParent().getParent().getParent().toRealPath(new LinkOption[0]));
            }
            if (overwrite) {
                Files.move(source, target, StandardCopyOption.ATOMIC_MOVE);
            } else if (link(source, target, to)) {
                Files.delete(source);
            } else {
                super.renameInternal(from, to, false);
            }
            Files.deleteIfExists(files.pathToFile(files.getChecksumFile(to)).toPath());
        }

        private static boolean isCommit(java.nio.file.Path file) {
            java.nio.file.Path folder = file.getParent();
            return file.getFileName().toString().endsWith(".json")
                && folder.endsWith("_delta_log")
                && folder.getNameCount() > 2;
        }

        /** Gives the file a second name; false where the disk knows no second names, and Hadoop's way is left. A server
            for files may have given it and lost its answer: asked again it says that the name is taken. */
        private boolean link(java.nio.file.Path source, java.nio.file.Path target, Path to) throws IOException {
            try {
                Files.createLink(target, source);
                return true;
            } catch (java.nio.file.FileAlreadyExistsException error) {
                if (!source.getFileName().equals(target.getFileName()) && key(source).equals(key(target))) {
                    return true;
                }
                throw new FileAlreadyExistsException("File already exists: " + to);
            } catch (FileSystemException error) {
                return false;
            } catch (UnsupportedOperationException error) {
                return false;
            }
        }

        private static Object key(java.nio.file.Path file) throws IOException {
            return Files.getAttribute(file, "fileKey", new LinkOption[] {LinkOption.NOFOLLOW_LINKS});
        }
    }

    /** The lakes that this JVM writes: it holds a lock of the operating system on a file of each until it ends. */
    public static class Writer {

        private static final Map HELD = new HashMap();  // a lake's folder -> the key of the file that is locked
        private static final List OPEN = new ArrayList();  // a channel that is closed gives up all locks on its file

        private Writer() {
        }

        /** Takes the lock of a lake, or sees that it is still this JVM's: somebody may have removed the file. */
        static void hold(java.nio.file.Path lake) throws IOException {
            synchronized (HELD) {
                java.nio.file.Path file = lake.resolve("_writer");
                Object held = HELD.get(lake);
                for (int tries = 0; held == null || !held.equals(keyOf(file)); tries++) {
                    if (tries == TRIES) {
                        throw new IOException(file + " was removed again and again: it keeps two servers from "
                            + "writing one lake. Nothing was committed");
                    }
                    held = taken(lake, file);
                }
                HELD.put(lake, held);
            }
        }

        private static final int TRIES = 5;

        /** The key of the file that was there when the lock was taken; null where it is to be tried again. */
        private static Object taken(java.nio.file.Path lake, java.nio.file.Path file) throws IOException {
            make(lake, file);
            Object before = keyOf(file);
            FileChannel channel;
            try {
                channel = FileChannel.open(
                    file, new OpenOption[] {StandardOpenOption.READ, StandardOpenOption.WRITE});
            } catch (NoSuchFileException error) {
                return null;
            } catch (AccessDeniedException error) {
                throw new IOException(file + " may not be written by the user of this server, who therefore cannot "
                    + "take the lake's lock. Nothing was committed: give the user that right, or remove the file "
                    + "while no server writes the lake");
            }
            FileLock lock;
            try {
                lock = channel.tryLock();
            } catch (OverlappingFileLockException error) {
                OPEN.add(channel);  // this JVM has it already: the lake was moved
                return before;
            } catch (IOException error) {
                OPEN.add(channel);
                // A disk without locks: commits stay safe, as each needs a name that nobody else has.
                System.err.println("evenkeel: no lock on " + file + ", which two servers may write: " + error);
                return before;
            }
            if (lock == null) {
                String holder = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).trim();
                channel.close();
                throw new IOException("The lake " + lake + " is written by another server: " + holder
                    + ". Nothing was committed: let this command use that server, or end it");
            }
            if (before == null || !before.equals(keyOf(file))) {
                channel.close();
                return null;
            }
            OPEN.add(channel);
            String since = Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
            String own = System.getProperty("evenkeel.writer", "a server") + ", process "
                + ProcessHandle.current().pid() + ", since " + since + "\n";
            channel.truncate(0L);
            channel.write(java.nio.ByteBuffer.wrap(own.getBytes(StandardCharsets.UTF_8)), 0L);
            return before;
        }

        /** Whoever may write files to the lake's folder may take its lock. */
        private static void make(java.nio.file.Path lake, java.nio.file.Path file) throws IOException {
            try {
                int mode = ((Integer) Files.getAttribute(lake, "unix:mode", new LinkOption[0])).intValue();
                Files.createFile(file, new java.nio.file.attribute.FileAttribute[0]);
                Files.setAttribute(file, "unix:mode", Integer.valueOf(mode & 0666), new LinkOption[0]);
            } catch (java.nio.file.FileAlreadyExistsException error) {
                return;
            }
        }

        private static Object keyOf(java.nio.file.Path file) throws IOException {
            try {
                return Files.getAttribute(file, "fileKey", new LinkOption[0]);
            } catch (NoSuchFileException error) {
                return null;
            }
        }
    }
}
"""


def compile_into(jvm: Any, folder: Path, source: str = SOURCE) -> None:
    """Compiles a class in a JVM (a gateway's `jvm`) into `folder`, which is on that JVM's class path, and loads it.

    Whatever lay there is replaced, unread. Raises Py4JJavaError where the class does not fit the Hadoop on the path.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setTargetVersion(8)
    compiler.cook(source)
    bytecodes = compiler.getBytecodes()
    for name in bytecodes:
        path = folder.joinpath(*name.split(".")).with_suffix(".class")
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f"{path.name}.{os.getpid()}")
        written.write_bytes(bytecodes[name])
        written.replace(path)
    for name in bytecodes:
        jvm.java.lang.Class.forName(name)
