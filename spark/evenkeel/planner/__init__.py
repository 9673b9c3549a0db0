"""Evenkeel's own planner: the best possible balance of a cluster, the desired placement, and the moves of a cycle."""
