"""Whether what was observed can be trusted: Great Expectations suites per table, and rules across tables."""
