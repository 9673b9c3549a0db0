"""The demo: Airflow runs the whole pipeline over recordings of a real Pulsar cluster; a report shows what came of it.

`python -m devtools.demo` needs no network and no port of its own choosing, and leaves no process behind.
"""
