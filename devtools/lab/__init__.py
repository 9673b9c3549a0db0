"""A real Pulsar cluster on this machine's loopback, for tests: started from Pulsar's own jars, ended with the tests.

`cluster.cluster_for` starts one for a `with` block, `fixtures` has one for a test run, `traffic` loads it and counts
messages, `measures` reads owners and load. To try things by hand: `python -m devtools.lab --help`.

It differs from a cluster in production. It has one bookie, which does not sync its journal. Brokers are 127.0.0.1,
127.0.0.2, ... on one port. Intervals are short (`conf`). Every broker sees the machine's CPU unless each has its own
cgroup (`cgroups`). Loopback is not a network card, so bandwidth usage stays near zero.
"""
