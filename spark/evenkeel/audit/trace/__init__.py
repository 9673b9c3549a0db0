"""Lineage: from a decision to what it rests on, and from an input to what rests on it, by the manifests."""

from __future__ import annotations

from evenkeel.audit.trace.as_json import as_json
from evenkeel.audit.trace.dependents import of_broker, of_snapshot, of_write
from evenkeel.audit.trace.inputs import inputs
from evenkeel.audit.trace.model import Dependents, Inputs
from evenkeel.audit.trace.text import as_text

__all__ = ["Dependents", "Inputs", "as_json", "as_text", "inputs", "of_broker", "of_snapshot", "of_write"]
