"""Concepts that several rooms share: names and ranges of bundles, loads, averages, verdicts, past commands. Pure."""
