"""One round of decisions for one cluster: rows of tables in, rows of tables out.

A round is pure: it turns rows into the values that `decisions` works with, calls, and turns verdicts into rows. The
tasks run it inside Spark, group by group; a replay folds the very same functions over past cycles.
"""
