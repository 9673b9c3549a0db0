"""Plan splits: which bundles to split, and where to cut them."""
