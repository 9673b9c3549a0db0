"""The commands of the command line, a module each: its options, and what it runs."""
