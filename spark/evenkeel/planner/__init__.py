"""Evenkeel's own planner: how evenly a cluster can be used, the placement that it is to come to, and the moves of a
cycle within all budgets."""
