"""Placement: which brokers may own a bundle, which of them is best, and what keeps a bundle where it is."""
