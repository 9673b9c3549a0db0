package evenkeel;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** Delta's log: each version is written by whoever comes first, and the other one is told so. */
public class ObjectStoreCommits extends HadoopFileSystemLogStore {

    private static final int TRIES = 5;
    private static final long PAUSE_MILLISECONDS = 200L;

    public ObjectStoreCommits(Configuration conf) {
        super(conf);
    }

    @Override
    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        byte[] content = bytesOf(actions);
        FileSystem store = path.getFileSystem(conf);
        if (path.getName().endsWith(".json") && path.getParent().getName().equals("_delta_log")) {
            ObjectStoreLease.hold(store, path.getParent().getParent().getParent());
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
                throw new FileAlreadyExistsException(path.toString());
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
