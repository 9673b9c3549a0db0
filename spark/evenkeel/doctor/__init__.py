"""Checks of an installation: its configuration file, and each part of it from Java to the brokers' clocks."""
