"""Lineage: from a decision to what it rests on, and from an input to what rests on it, by the manifests."""

from __future__ import annotations

from evenkeel.record.trace.answer import Dependents, Inputs, as_json, as_text
from evenkeel.record.trace.dependents import of_broker, of_snapshot, of_write
from evenkeel.record.trace.inputs import inputs

__all__ = ["Dependents", "Inputs", "as_json", "as_text", "inputs", "of_broker", "of_snapshot", "of_write"]
