"""Lineage: from a decision to its inputs, and from an input to its dependents, by the manifests."""

from __future__ import annotations

from evenkeel.explain.trace.answer import Dependents, Inputs, as_json, as_text
from evenkeel.explain.trace.links import inputs, of_broker, of_snapshot, of_write

__all__ = ["Dependents", "Inputs", "as_json", "as_text", "inputs", "of_broker", "of_snapshot", "of_write"]
