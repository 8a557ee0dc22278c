"""Kafka's own commands under Kafka's own names: `moldau kafka-topics.sh --list ...`.

People have these names, options and output lines in their fingers and in their scripts. So an
option, an output line or an exit status here is Kafka 4.3's, and what earlier releases called
otherwise is understood too. What the commands do, they do through the client, so they serve an
Apache Kafka as well. `table` knows which name is which module; only that one is imported.
"""
