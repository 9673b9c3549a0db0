"""SQL views over a lake: only rows that count, with documented columns, for DuckDB, Spark and Trino.

`declarations` says which views there are; `scripts` writes them in the SQL of an engine, and registers them in Spark or
in a DuckDB file; `query` runs one query over them in this process.
"""
