"""Upkeep: what is kept how long, compaction, and the beginning of a truncated chain."""
