"""Ingest: the raw snapshot of each cycle becomes observed rows.

What a shedder is to shed, a source is here; there is no round."""
