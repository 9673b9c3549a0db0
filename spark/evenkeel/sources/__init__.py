"""Sources of clusters' snapshots: recordings, the admin API or S3; and the landing of snapshots."""
