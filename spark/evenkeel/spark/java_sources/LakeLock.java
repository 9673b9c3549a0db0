package evenkeel;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The lakes that this JVM writes: it holds a lock of the operating system on a file of each until it ends. */
public class LakeLock {

    private static final int TRIES = 5;
    private static final Map HELD = new HashMap();  // a lake's folder -> the key of the file that is locked
    private static final List OPEN = new ArrayList();  // a channel that is closed gives up all locks on its file

    private LakeLock() {
    }

    /** Takes the lock of a lake, or sees that it is still this JVM's: somebody may have removed the file. */
    static void hold(Path lake) throws IOException {
        synchronized (HELD) {
            Path file = lake.resolve("_writer");
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

    /** The key of the file that was there when the lock was taken; null where it is to be tried again. */
    private static Object taken(Path lake, Path file) throws IOException {
        make(lake, file);
        if (Files.isSymbolicLink(file)) {
            throw new IOException(file + " is a symbolic link, which no server makes. Nothing was committed: remove it");
        }
        Object before = keyOf(file);
        FileChannel channel;
        try {
            channel = FileChannel.open(
                file,
                new OpenOption[] {StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS});
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
        channel.write(ByteBuffer.wrap(own.getBytes(StandardCharsets.UTF_8)), 0L);
        return before;
    }

    /** Whoever may write files to the lake's folder may take its lock. */
    private static void make(Path lake, Path file) throws IOException {
        try {
            int mode = ((Integer) Files.getAttribute(lake, "unix:mode", new LinkOption[0])).intValue();
            Files.createFile(file, new FileAttribute[0]);
            Files.setAttribute(file, "unix:mode", Integer.valueOf(mode & 0666), new LinkOption[0]);
        } catch (FileAlreadyExistsException error) {
            return;
        }
    }

    private static Object keyOf(Path file) throws IOException {
        try {
            return Files.getAttribute(file, "fileKey", new LinkOption[] {LinkOption.NOFOLLOW_LINKS});
        } catch (NoSuchFileException error) {
            return null;
        }
    }
}
