"""Assignors: the group's leader uses one to divide partitions among the members.

Pure: subscriptions in, assignments out. `interface` defines an assignor. `stateless` and `sticky`
have the built-in ones, equal to those of Kafka 4.3's clients. `choice` finds them by name, and
`consumer_protocol` encodes what members exchange.
"""
