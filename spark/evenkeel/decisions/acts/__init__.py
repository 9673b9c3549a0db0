"""What was done to a cluster lately, and what follows for the figures and bundles that it touched."""
