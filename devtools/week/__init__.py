"""A week of three generated clusters with an incident in it, which `make ui` shows to new users.

`course` lets the clusters live, `documents` writes their brokers' answers, `lake` decides all of it in windows and
builds the heat tables. Equal seeds give equal weeks.
"""
