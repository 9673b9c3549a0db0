"""Placement as the extensible load manager does it: its broker filters, and how it chooses among those left."""
