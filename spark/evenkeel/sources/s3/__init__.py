"""The landing zone: how snapshots travel where Airflow cannot reach a cluster.

`evenkeel collect --to s3://bucket/prefix` beside the cluster uploads a snapshot (`upload`); the pipeline finds it
(`listing`), brings it to a local folder (`fetch`) and reads it like a recording's (`landing`). Layout: see `place`.

What the bucket needs: conditional writes (`If-None-Match: *`), read-after-write consistency, and lifecycle rules of the
operator's choice: one that ends objects after the audit period, one that ends unfinished multipart uploads.
"""
