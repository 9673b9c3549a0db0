"""The fold over the cycles of a cluster and its runner, and what the rounds of several tasks share."""
