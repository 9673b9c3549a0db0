"""Shedding: which bundles leave which broker, one module per shedder, and the frame all of them run in."""
