"""A week of three generated clusters with an incident in it: what `make ui` shows a newcomer.

`course` lets the clusters live, `documents` writes what their brokers would have answered, `lake` decides all of it in
windows and builds the heat tables. The same seed, the same week.
"""
