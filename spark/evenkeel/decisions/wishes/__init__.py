"""Wishes: splits and unloads that an operator asks for, held to the rules of Pulsar's own admin operations."""
