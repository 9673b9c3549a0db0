"""What-if: other strategies or settings over recorded history (open loop), or over a model of a cluster (closed loop).

Results stand in tables of their own (`lake.schemas.kept.REPLAYED`), never in the record. They cause no commands.
"""
