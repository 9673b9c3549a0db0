"""What several rooms speak of: names and ranges of bundles, loads, averages, verdicts, past commands. Pure."""
