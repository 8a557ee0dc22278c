"""The same questions to Apache Kafka and to Moldau, and what differs between the answers.

A scenario (`scenarios/`) is a function that asks one broker things through a `Peer`. It is run
against both brokers; the peers write down every answer in a form in which what must differ (ids,
addresses, times) has been replaced (`plain`), and `compare` tells the two records apart.

Both kinds of broker are spoken to through Moldau's codecs, which stand on tests against other
people's codecs and Kafka's own bytes.
"""
