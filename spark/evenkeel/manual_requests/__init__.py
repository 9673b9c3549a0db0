"""Splits and unloads that an operator asks for (`evenkeel wish`), held to the rules of Pulsar's admin API; drains."""
