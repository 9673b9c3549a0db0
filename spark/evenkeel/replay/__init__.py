"""Replays of other strategies or settings: over recorded history (open loop), or over a modelled cluster (closed loop).

Results are in separate tables (`lake.schemas.kept.REPLAYED`), never in the record, and no command ever results from
them.
"""
