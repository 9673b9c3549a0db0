"""The tutorial `docs/tutorial/incident.md`: its recording, and its steps run as they stand there."""
