"""A real Pulsar cluster on this machine's loopback, for tests: started from Pulsar's own jars, ended with the tests.

`cluster.cluster_for` starts one for a `with` block, `fixtures` has one for a test run, `traffic` loads it and counts
messages, `measures` reads who owns what and how the load lies. To try things by hand: `python -m devtools.lab --help`.

What differs from a cluster in production: one bookie, which does not sync its journal; brokers are 127.0.0.1,
127.0.0.2, ... on one port; intervals are short (`conf`); every broker sees the machine's CPU unless each has a cgroup
of its own (`cgroups`); loopback is not a network card, so bandwidth usage stays near zero.
"""
