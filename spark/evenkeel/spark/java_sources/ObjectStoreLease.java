package evenkeel;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ShutdownHookManager;

/**
 * The right of this JVM to write a lake: an object that it replaces from time to time, and that nobody else
 * replaces before its time is over. Whoever stood still for longer sees at the next commit that another has it.
 */
public class ObjectStoreLease {

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

    private ObjectStoreLease(FileSystem store, Path lake) {
        this.store = store;
        this.lake = lake;
        this.place = new Path(lake, "_writer");
        this.own = System.getProperty("evenkeel.writer", "a server") + ", process "
            + ProcessHandle.current().pid() + ", since " + Instant.now().truncatedTo(ChronoUnit.SECONDS);
    }

    /** Takes the lease of a lake, or sees that it is still this JVM's. */
    static void hold(FileSystem store, Path lake) throws IOException {
        ObjectStoreLease lease;
        synchronized (HELD) {
            lease = (ObjectStoreLease) HELD.get(lake);
            if (lease == null) {
                if (HELD.isEmpty()) {
                    Keeper.begin();
                }
                lease = new ObjectStoreLease(store, lake);
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
            ObjectStoreCommits.pause(tried * 100L);
        }
    }

    /** False where somebody else was about to put it: look again. */
    private boolean isTaken() throws IOException {
        tag = null;
        String before = null;
        byte[] there = null;
        try {
            before = tagOf();
            there = ObjectStoreCommits.contentOf(store, place, MOST_BYTES, new IOException(place + " cannot be read"));
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
            ObjectStoreCommits.put(store, place, content, before == null, before);
        } catch (IOException error) {
            byte[] there = ObjectStoreCommits.contentOf(store, place, MOST_BYTES, error);
            if (there == null || !Arrays.equals(there, content)) {
                if (there == null || ObjectStoreCommits.isRefused(error)) {
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
                    ((ObjectStoreLease) each.next()).renew();
                }
            }
            for (Iterator each = all().iterator(); each.hasNext();) {
                ((ObjectStoreLease) each.next()).giveBack();
            }
        }
    }
}
