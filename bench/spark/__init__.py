"""Our source and sink against Spark's own Kafka connector: same broker, same session, in turn.

`python -m bench.spark.run` runs every contest of `contests` and writes `bench/SPARK.md`. Both sides
run in one virtual machine with Spark's defaults and read and write the same broker, one after the
other, in an order that alternates from round to round; what counts is the ratio within a round. The
rounds before those that are timed let the virtual machine compile its hot code.
"""
