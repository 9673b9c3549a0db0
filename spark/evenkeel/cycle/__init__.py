"""The fold over the cycles of a cluster and its runner, and common parts of several tasks' rounds."""
