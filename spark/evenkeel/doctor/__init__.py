"""Whether an installation is sound: its configuration file, and each part of it from Java to the brokers' clocks."""
