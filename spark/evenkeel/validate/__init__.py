"""Validate: check that the observed rows can be trusted.

Great Expectations suites per table, and rules across tables; this task has no round.
"""
