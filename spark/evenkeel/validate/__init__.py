"""Validate: whether what was observed can be trusted.

Great Expectations suites per table, and rules across tables; there is no round."""
