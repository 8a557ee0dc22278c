"""Clients of the simulated broker: they write, read and administrate, and tell what they saw."""
