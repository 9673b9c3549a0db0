"""Where snapshots of clusters come from: recordings, the admin API or S3; and how they are landed."""
