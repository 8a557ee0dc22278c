"""Clients of the simulated broker: they write, read, ask, create and delete, and tell what they saw."""
