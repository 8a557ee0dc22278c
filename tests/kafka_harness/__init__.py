"""Apache Kafka itself, and Moldau beside it, as parts of tests and benchmarks.

`distribution` fetches the pinned jars, `java` runs classes of them, `kafka_node` and `moldau_node`
are brokers with one face (`broker`) on ports of their own (`ports`), `wire` asks a broker its first
question. Tests import this package as `kafka_harness`, benchmarks as `tests.kafka_harness`; that is
why imports inside it are relative. It must not import Moldau: what is checked here is what a
stranger sees from outside.
"""
