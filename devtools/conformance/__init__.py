"""Runs the decision code on cases with golden answers of Pulsar's own classes, and counts where both agree."""
