"""The seven tasks of the pipeline, from ingest to publish: tables in, tables out."""
