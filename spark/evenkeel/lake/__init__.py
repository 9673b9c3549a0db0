"""The Delta tables: their schemas, appends and reads of rows, digests, and the chain of manifests."""
