"""Repetition of whole cycles: all rounds of a recorded cycle, one after the other, for verify, replay and explain."""
