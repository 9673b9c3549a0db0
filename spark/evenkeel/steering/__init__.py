"""Sending commands to clusters and seeing what came of them: for publish, ingest, the agent and takeovers."""
