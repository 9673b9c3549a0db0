"""Ingest: the raw snapshot of each cycle becomes observed rows.

Sources are its variants, as shedders are those of shed; this task has no round.
"""
