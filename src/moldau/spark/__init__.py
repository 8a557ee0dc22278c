"""Topics as Spark's tables and streams, and tables and streams as topics: `format("moldau")`.

`provider` is what Spark meets first; `source` reads, `sink` writes, `settings` holds the options
both understand, and `shipping` looks after what travels to executors. All of it speaks to brokers
through `moldau.client`, and so to Apache Kafka as well.
"""
