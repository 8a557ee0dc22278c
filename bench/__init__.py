"""Moldau against Apache Kafka: same machine, same disk, same client, same run.

`python -m bench.run` runs every kind of work of `bench.works` on both brokers in turn, several
rounds, and writes `bench/RESULTS.md`. Absolute figures of a shared machine move by a third from
hour to hour, so what counts is the ratio within a round. The load always runs in a process of its
own (`bench.load`), so that a broker never pays for its client.
"""
