"""Splits and unloads that an operator requests (`evenkeel wish`), by the rules of Pulsar's admin API; drains."""
