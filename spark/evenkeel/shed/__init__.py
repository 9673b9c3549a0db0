"""Shed: which bundles leave their broker."""
