"""Partitions as this broker serves them: who leads, what is committed, who waits for more."""
