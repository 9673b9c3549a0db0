"""Lineage: from a decision to what it rests on, and from an input to what rests on it, by the manifests."""

from __future__ import annotations

from evenkeel.record.trace.answer import Dependents, Inputs, as_json, as_text
from evenkeel.record.trace.links import inputs, of_broker, of_snapshot, of_write

__all__ = ["Dependents", "Inputs", "as_json", "as_text", "inputs", "of_broker", "of_snapshot", "of_write"]
