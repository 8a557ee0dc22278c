"""The Spark data source `format("moldau")`: reads and writes topics of Moldau and Apache Kafka.

`provider` is Spark's entry point. `source` reads, `sink` writes, `settings` has the shared options,
and `shipping` checks what is sent to executors. All of it uses the Python client.
"""
