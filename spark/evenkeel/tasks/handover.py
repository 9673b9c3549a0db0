from evenkeel.handover import *  # noqa: F403
from evenkeel.handover import ClusterCycle, Handover, Predecessor, Run, Snapshot, Write  # noqa: F401
