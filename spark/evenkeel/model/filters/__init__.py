"""Which brokers may take a bundle, and which bundles may leave: asked by plan_splits, shed and place. Pure."""
