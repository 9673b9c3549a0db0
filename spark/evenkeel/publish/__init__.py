"""Publish: the plan, what guards hold back, whether it may be sent, and the manifests that make the cycle visible."""
