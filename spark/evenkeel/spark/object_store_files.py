"""How the Spark server keeps tables in a store that speaks S3: its keys, its bounds, and commits that are never lost.

Delta's own way for S3 looks whether a version is there, then writes it: of two servers at once one overwrites the
other's commit and both report success. The Java class here asks the store to write a commit only if nobody has
(`If-None-Match: *`), which is what deltalake does as well. An answer that got lost makes the client ask again and meet
its own commit: that is told by its content, which no other commit has, and counts as written.

Before its first commit to a lake the JVM takes a lease of it (`evenkeel.lake.one_writer`): an object `_writer`, which
it renews until it ends. While another has one, every commit is refused.

The class is compiled as that of `local_files` is. Keys are read from a file in the server's home with every request
(`evenkeel.object_store.hand_over`), so that they can be renewed, and stand in no setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenkeel.object_store import FOLDER, REQUEST_SECONDS

_CLASS = "evenkeel.ObjectStore"

# Hadoop repeats what the SDK has repeated: with the defaults of both a store that does not answer holds a task for more
# than an hour. These end it after four minutes.
_HADOOP = {
    "fs.s3a.impl": _CLASS,
    "fs.AbstractFileSystem.s3a.impl": f"{_CLASS}$Context",
    "fs.s3a.aws.credentials.provider": f"{_CLASS}$Keys",
    "fs.s3a.connection.establish.timeout": "15s",  # less is not taken
    "fs.s3a.connection.timeout": f"{REQUEST_SECONDS}s",
    "fs.s3a.connection.request.timeout": "60s",
    "fs.s3a.connection.part.upload.timeout": "120s",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "3",
    "fs.s3a.retry.interval": "500ms",
    "fs.s3a.retry.throttle.limit": "6",
    "fs.s3a.retry.throttle.interval": "100ms",
    # Names of data files are new, and folders need no marker: nothing has to be looked for before.
    "fs.s3a.performance.flags": "create,delete,mkdir",
    "fs.s3a.connection.expect.continue": "false",
    "fs.s3a.audit.enabled": "false",
}


LOG_STORE_SETTING = "spark.delta.logStore.s3a.impl"
LOG_STORE = f"{_CLASS}$Commits"
"""The value of that setting under which no commit is lost."""


def settings(folder: Path) -> dict[str, str]:
    """Spark settings of a server whose home is `folder`; none of them is secret."""
    own = {"evenkeel.object-stores": str(folder / FOLDER), "fs.s3a.buffer.dir": str(folder / "scratch" / "s3a")}
    return {
        LOG_STORE_SETTING: LOG_STORE,
        **{f"spark.hadoop.{key}": value for key, value in {**_HADOOP, **own}.items()},
    }


def fits(command: Sequence[str]) -> bool:
    """Whether the JVM of this command line has what the class is made of on its class path."""
    return "hadoop-aws-" in command[command.index("-cp") + 1]


SOURCE = r"""
package evenkeel;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.CredentialInitializationException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.util.ShutdownHookManager;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** A bucket, at the endpoint and in the region that were handed over for it. */
public class ObjectStore extends S3AFileSystem {

    private static final String ENDPOINT = "fs.s3a.endpoint";

    @Override
    public void initialize(URI uri, Configuration given) throws IOException {
        Configuration conf = new Configuration(given);
        Properties known = handedOver(conf, uri);
        if (known != null) {
            String endpoint = known.getProperty("endpoint", "");
            conf.set(ENDPOINT, endpoint);
            if (endpoint.length() > 0) {
                conf.set("fs.s3a.path.style.access", "true");
                conf.set("fs.s3a.connection.ssl.enabled", endpoint.startsWith("http:") ? "false" : "true");
            }
            conf.set("fs.s3a.endpoint.region", known.getProperty("region", ""));
        }
        super.initialize(uri, conf);
    }

    /** What was handed over for the bucket, else for any; null where nothing was. */
    static Properties handedOver(Configuration conf, URI uri) throws IOException {
        String folder = conf.get("evenkeel.object-stores", "");
        File file = new File(folder, uri.getAuthority() + ".properties");
        if (!file.isFile()) {
            file = new File(folder, "default.properties");
        }
        if (!file.isFile()) {
            return null;
        }
        Properties found = new Properties();
        InputStream opened = new FileInputStream(file);
        try {
            found.load(opened);
        } finally {
            opened.close();
        }
        return found;
    }

    /** The keys of now, read with each request; where none were handed over, those that the SDK finds. */
    public static class Keys implements AwsCredentialsProvider {

        private final URI uri;
        private final Configuration conf;
        private AwsCredentialsProvider own;

        public Keys(URI uri, Configuration conf) {
            this.uri = uri;
            this.conf = conf;
        }

        @Override
        public AwsCredentials resolveCredentials() {
            Properties known;
            try {
                known = handedOver(conf, uri);
            } catch (IOException error) {
                throw new CredentialInitializationException("what was handed over cannot be read", error);
            }
            if (known == null) {
                return own().resolveCredentials();
            }
            // The keys of one store are never shown to another.
            if (!known.getProperty("endpoint", "").equals(conf.get(ENDPOINT, ""))) {
                throw new CredentialInitializationException(
                    "evenkeel-other-endpoint: this server has used the bucket " + uri.getAuthority()
                    + " at another endpoint than it is asked for now");
            }
            String key = known.getProperty("access.key", "");
            String secret = known.getProperty("secret.key", "");
            String token = known.getProperty("session.token", "");
            if (token.length() > 0) {
                return AwsSessionCredentials.create(key, secret, token);
            }
            return AwsBasicCredentials.create(key, secret);
        }

        private synchronized AwsCredentialsProvider own() {
            if (own == null) {
                own = DefaultCredentialsProvider.create();
            }
            return own;
        }
    }

    /** Files by their paths in the store, for whoever asks Hadoop for a file context. */
    public static class Context extends DelegateToFileSystem {

        public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new ObjectStore(), conf, "s3a", false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }
    }

    /** Delta's log: each version is written by whoever comes first, and the other one is told so. */
    public static class Commits extends HadoopFileSystemLogStore {

        private static final int TRIES = 5;
        private static final long PAUSE_MILLISECONDS = 200L;

        public Commits(Configuration conf) {
            super(conf);
        }

        @Override
        public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
            byte[] content = bytesOf(actions);
            FileSystem store = path.getFileSystem(conf);
            if (path.getName().endsWith(".json") && path.getParent().getName().equals("_delta_log")) {
                Lease.hold(store, path.getParent().getParent().getParent());
            }
            if (overwrite.booleanValue()) {
                put(store, path, content, false, null);
                return;
            }
            for (int tried = 1; !isWritten(store, path, content); tried++) {
                if (tried == TRIES) {
                    throw new IOException("the store refuses a new file, and there is none of this name: " + path);
                }
                pause(tried * PAUSE_MILLISECONDS);
            }
        }

        /** False where another writer is just about to write the same version: ask again. */
        private static boolean isWritten(FileSystem store, Path path, byte[] content) throws IOException {
            try {
                put(store, path, content, true, null);
                return true;
            } catch (IOException error) {
                byte[] there = contentOf(store, path, content.length, error);
                if (there != null) {
                    // An answer may have been lost, and the file that is there is our own.
                    if (Arrays.equals(there, content)) {
                        return true;
                    }
                    throw new java.nio.file.FileAlreadyExistsException(path.toString());
                }
                if (isRefused(error)) {
                    return false;
                }
                throw error;
            }
        }

        /** Puts an object: any, one of a new name, or one in the place of that with the tag `before`. */
        static void put(FileSystem store, Path path, byte[] content, boolean isNew, String before) throws IOException {
            FSDataOutputStreamBuilder builder = store.createFile(path);
            builder.recursive();
            builder.overwrite(true);
            builder.opt("fs.s3a.create.performance", "true");
            if (isNew) {
                builder.must("fs.option.create.conditional.overwrite", "true");
            } else if (before != null) {
                builder.must("fs.option.create.conditional.overwrite.etag", before);
            }
            FSDataOutputStream opened = (FSDataOutputStream) builder.build();
            opened.write(content);
            opened.close();
        }

        /** What lies there, up to a byte more than `most`; null where nothing does. */
        static byte[] contentOf(FileSystem store, Path path, int most, IOException error) throws IOException {
            try {
                InputStream opened = store.open(path);
                try {
                    ByteArrayOutputStream found = new ByteArrayOutputStream();
                    byte[] part = new byte[8192];
                    int length = opened.read(part);
                    while (length >= 0 && found.size() <= most) {
                        found.write(part, 0, length);
                        length = opened.read(part);
                    }
                    return found.toByteArray();
                } finally {
                    opened.close();
                }
            } catch (FileNotFoundException none) {
                return null;
            } catch (IOException unreadable) {
                throw error;
            }
        }

        /** Whether the store said that another writer was, or is, there: 412, or 409 for two at once. */
        static boolean isRefused(Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof RemoteFileChangedException) {
                    return true;
                }
                if (cause instanceof AwsServiceException) {
                    int status = ((AwsServiceException) cause).statusCode();
                    return status == 409 || status == 412;
                }
            }
            return false;
        }

        private static byte[] bytesOf(Iterator actions) throws IOException {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            while (actions.hasNext()) {
                text.write(((String) actions.next()).getBytes("UTF-8"));
                text.write('\n');
            }
            return text.toByteArray();
        }

        static void pause(long milliseconds) throws IOException {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted while a commit was written");
            }
        }

        /** An object is there whole or not at all. */
        @Override
        public Boolean isPartialWriteVisible(Path path, Configuration conf) {
            return Boolean.FALSE;
        }
    }

    /**
     * The right of this JVM to write a lake: an object that it replaces from time to time, and that nobody else
     * replaces before its time is over. Whoever stood still for longer sees at the next commit that another has it.
     */
    public static class Lease {

        private static final long LASTS = Long.getLong("evenkeel.lease.milliseconds", 60000L).longValue();
        private static final long CLOCKS_APART = LASTS / 4;
        private static final int TRIES = 5;
        private static final int MOST_BYTES = 4096;
        private static final Map HELD = new HashMap();

        private final FileSystem store;
        private final Path lake;
        private final Path place;
        private final String own;
        private volatile String tag;  // of the object as this JVM put it; null where it holds none
        private volatile long untilClock;
        private volatile long untilNanos;

        private Lease(FileSystem store, Path lake) {
            this.store = store;
            this.lake = lake;
            this.place = new Path(lake, "_writer");
            this.own = System.getProperty("evenkeel.writer", "a server") + ", process "
                + ProcessHandle.current().pid() + ", since " + Instant.now().truncatedTo(ChronoUnit.SECONDS);
        }

        /** Takes the lease of a lake, or sees that it is still this JVM's. */
        static void hold(FileSystem store, Path lake) throws IOException {
            Lease lease;
            synchronized (HELD) {
                lease = (Lease) HELD.get(lake);
                if (lease == null) {
                    if (HELD.isEmpty()) {
                        Keeper.begin();
                    }
                    lease = new Lease(store, lake);
                    HELD.put(lake, lease);
                }
            }
            if (!lease.holds()) {  // asked first without waiting for a renewal that is under way
                synchronized (lease) {
                    if (!lease.holds()) {
                        lease.take();
                    }
                }
            }
        }

        private boolean holds() {
            return tag != null && System.currentTimeMillis() < untilClock && System.nanoTime() - untilNanos < 0L;
        }

        private void take() throws IOException {
            for (int tried = 1; !isTaken(); tried++) {
                if (tried == TRIES) {
                    throw new IOException(place + " is written by others again and again: it keeps two servers from "
                        + "writing one lake. Nothing was committed");
                }
                Commits.pause(tried * 100L);
            }
        }

        /** False where somebody else was about to put it: look again. */
        private boolean isTaken() throws IOException {
            tag = null;
            String before = null;
            byte[] there = null;
            try {
                before = tagOf();
                there = Commits.contentOf(store, place, MOST_BYTES, new IOException(place + " cannot be read"));
            } catch (FileNotFoundException none) {
                before = null;
            }
            if (there != null) {
                String[] lines = new String(there, "UTF-8").split("\n");
                String holder = lines[0].trim();
                if (!holder.equals(own) && System.currentTimeMillis() < untilOf(lines) + CLOCKS_APART) {
                    throw new IOException("The lake " + lake + " is written by another server: " + holder
                        + ", until " + Instant.ofEpochMilli(untilOf(lines)).truncatedTo(ChronoUnit.SECONDS)
                        + " unless it goes on. Nothing was committed: let this command use that server, or end it");
                }
            }
            return isPut(before);
        }

        /** Puts the object if it is still the one with the tag `before`, or if there is none where that is null. */
        private boolean isPut(String before) throws IOException {
            long clock = System.currentTimeMillis() + LASTS;
            long nanos = System.nanoTime() + LASTS * 1000000L;
            byte[] content = (own + "\n" + clock + "\n").getBytes("UTF-8");
            try {
                Commits.put(store, place, content, before == null, before);
            } catch (IOException error) {
                byte[] there = Commits.contentOf(store, place, MOST_BYTES, error);
                if (there == null || !Arrays.equals(there, content)) {
                    if (there == null || Commits.isRefused(error)) {
                        return false;
                    }
                    throw error;
                }
            }
            String put = tagOf();
            untilClock = clock;
            untilNanos = nanos;
            tag = put;
            return true;
        }

        private String tagOf() throws IOException {
            return ((EtagSource) store.getFileStatus(place)).getEtag();
        }

        private static long untilOf(String[] lines) {
            try {
                return Long.parseLong(lines[1].trim());
            } catch (RuntimeException error) {
                return 0L;  // nothing that a server puts: it keeps nobody away
            }
        }

        private synchronized void renew() {
            try {
                if (tag != null && !isPut(tag)) {
                    tag = null;
                    System.err.println("evenkeel: the lease of " + lake + " is another's now, or was removed");
                }
            } catch (Exception error) {
                System.err.println("evenkeel: the lease of " + lake + " was not renewed: " + error);
            }
        }

        private synchronized void giveBack() {
            boolean isOwn = holds() && untilNanos - System.nanoTime() > LASTS * 250000L;
            String held = tag;
            tag = null;
            try {
                if (isOwn && held.equals(tagOf())) {
                    store.delete(place, false);
                }
            } catch (IOException error) {
                return;  // it ends by itself
            }
        }

        private static List all() {
            synchronized (HELD) {
                return new ArrayList(HELD.values());
            }
        }

        /** Renews all leases in time, and gives them back when the JVM ends. */
        public static class Keeper implements Runnable {

            private final boolean isEnd;

            private Keeper(boolean isEnd) {
                this.isEnd = isEnd;
            }

            static void begin() {
                Thread renewing = new Thread(new Keeper(false), "evenkeel-leases");
                renewing.setDaemon(true);
                renewing.start();
                // Before that of the file systems, which has 10.
                ShutdownHookManager.get().addShutdownHook(new Keeper(true), 100);
            }

            @Override
            public void run() {
                while (!isEnd) {
                    try {
                        Thread.sleep(LASTS / 4);
                    } catch (InterruptedException error) {
                        return;
                    }
                    for (Iterator each = all().iterator(); each.hasNext();) {
                        ((Lease) each.next()).renew();
                    }
                }
                for (Iterator each = all().iterator(); each.hasNext();) {
                    ((Lease) each.next()).giveBack();
                }
            }
        }
    }
}
"""
