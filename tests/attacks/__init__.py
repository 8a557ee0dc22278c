"""Attacks on a real broker: `make fuzz` and `make attack`, with small versions in the suite."""
