"""The demo: Airflow runs the whole pipeline over recordings of a real Pulsar cluster; a report shows the results.

`python -m devtools.demo` needs no network and no free port of its own choosing, and leaves no process running.
"""
