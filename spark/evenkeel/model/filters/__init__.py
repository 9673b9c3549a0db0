"""Filters of brokers that may take a bundle and of bundles that may leave, for plan_splits, shed and place. Pure."""
