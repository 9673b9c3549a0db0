"""Publish: the plan, the guards' objections, the gate for sending, and the manifests that make the cycle visible."""
