"""Commands to clusters and their observed outcomes: for publish, ingest, the agent and takeovers."""
