"""Lineage: from a decision to what it rests on, and from an input to what rests on it, by the manifests."""

from __future__ import annotations

from evenkeel.explain.trace.answer import Dependents, Inputs, as_json, as_text
from evenkeel.explain.trace.links import inputs, of_broker, of_snapshot, of_write

__all__ = ["Dependents", "Inputs", "as_json", "as_text", "inputs", "of_broker", "of_snapshot", "of_write"]
