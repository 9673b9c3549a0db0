"""All rounds of a cycle, one after the other: what verify, replay, simulate and conformance run."""
