"""Upkeep: retention of rows, compaction, and the beginning of a truncated chain."""
