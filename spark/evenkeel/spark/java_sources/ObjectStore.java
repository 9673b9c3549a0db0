package evenkeel;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.s3a.CredentialInitializationException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;

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
}
