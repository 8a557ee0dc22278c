"""Mistakes that are put into the running code on purpose, to test the tests.

`replication`, `coordination` and `storage` have the mutants; `catching` runs one of them over seeds
of the simulation until a check finds it. `python -m kits.mutants.search` does that for many, and
prints the table of docs/reliability.md.
"""
