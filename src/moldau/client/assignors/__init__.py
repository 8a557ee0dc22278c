"""How a group divides partitions among its members, worked out by the member that leads it.

Pure: subscriptions in, assignments out. `interface` says what an assignor is; `stateless` and
`sticky` have the built-in ones, equal to those of Kafka 4.3's clients; `choice` finds them by name;
`consumer_protocol` is what travels between members.
"""
