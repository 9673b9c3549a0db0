"""Hundreds of cycles under a real scheduler, with kills and restarts, and whether time and memory stay level."""
