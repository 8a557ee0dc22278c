"""Partitions on this broker: their roles, what is committed, and operations that wait for it."""
