"""Evenkeel's own planner: how evenly a cluster can be used, the placement to come to, and the moves of a cycle."""
