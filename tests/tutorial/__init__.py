"""The tutorials of an incident: their recording, and a run of every step as the pages show it."""
