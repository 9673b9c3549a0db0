"""The transparency log: a signed Merkle tree of what was published, witnesses of it, and proofs for strangers.

Leaves are short headers of published cycles, and of whatever else of a lake has a leaf of its own. The tree lies in
files beside the lake, in the formats of C2SP (c2sp.org): signed notes, checkpoints, tiles, cosignatures, witnesses and
proofs. Nothing here knows Spark or Delta. `tools/check_proof.py` reads a proof without anything of this package.
"""
