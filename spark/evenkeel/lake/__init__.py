"""The Delta tables: their schemas, how rows are appended and read, digests, and the chain of manifests."""
