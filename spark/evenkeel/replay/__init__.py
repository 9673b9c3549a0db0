"""What-if: other strategies or settings over recorded history (open loop), or over a model of a cluster (closed loop).

Results are in separate tables (`lake.schemas.kept.REPLAYED`), never in the record, and no command ever results from
them.
"""
