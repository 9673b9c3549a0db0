package evenkeel;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Writes no checksum files and asks for none; those of earlier versions stay hidden and go with their files. A closed
 * file is on disk with its name, so a power cut takes no commit that was acknowledged, and no file that one names.
 */
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
        protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission mode)
            throws IOException {
            return new Synced(super.createOutputStreamWithMode(path, append, mode), pathToFile(path).getParentFile());
        }

        @Override
        protected boolean mkOneDirWithMode(Path path, File folder, FsPermission mode) throws IOException {
            boolean isMade = super.mkOneDirWithMode(path, folder, mode);
            sync(folder.getParentFile());
            return isMade;
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

        /** Fails for a folder with a link out of it: VACUUM would remove the files that it leads to. */
        @Override
        public FileStatus[] listStatus(Path path) throws IOException {
            java.nio.file.Path folder = pathToFile(path).toPath();
            if (!Files.isDirectory(folder)) {
                return new FileStatus[] {getFileStatus(path)};
            }
            FileStatus[] found = super.listStatus(path);
            for (int place = 0; place < found.length; place++) {
                java.nio.file.Path entry = folder.resolve(found[place].getPath().getName());
                if (Files.isSymbolicLink(entry) && !entry.toRealPath().startsWith(folder.toRealPath())) {
                    throw new IOException(entry + " is a symbolic link that leads out of its folder: remove it");
                }
            }
            return found;
        }
    }

    /** Syncs a file before it is closed, and then its name. */
    public static class Synced extends FilterOutputStream {

        private final File folder;

        Synced(OutputStream file, File folder) {
            super(file);
            this.folder = folder;
        }

        @Override
        public void write(byte[] content, int from, int length) throws IOException {
            out.write(content, from, length);
        }

        @Override
        public void close() throws IOException {
            try {
                ((Syncable) out).hsync();
            } finally {
                out.close();
            }
            sync(folder);
        }
    }

    /** Syncs the names in a folder. */
    static void sync(File folder) throws IOException {
        FileChannel opened = FileChannel.open(folder.toPath(), new OpenOption[] {StandardOpenOption.READ});
        try {
            opened.force(true);
        } finally {
            opened.close();
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
                LakeLock.hold(target.getParent().getParent().getParent().toRealPath(new LinkOption[0]));
            }
            if (overwrite) {
                Files.move(source, target, StandardCopyOption.ATOMIC_MOVE);
            } else if (link(source, target, to)) {
                Files.delete(source);
            } else {
                super.renameInternal(from, to, false);
            }
            sync(target.getParent().toFile());
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
}
