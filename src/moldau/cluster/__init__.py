"""The cluster's metadata: what it contains, how it changes, where it is stored.

`model` holds the nouns, `changes` the verbs, `image` the state that a sequence of changes adds up
to. `placement`, `topics`, `configs`, `brokers`, `heartbeats`, `isr_changes`, `elections` and
`reassignment` decide: image in, changes out, nothing done. Those about replicas share
`leader_choice` and `partition_update`, and walk over many partitions in `steps`.
`store` is the port that makes changes durable and tells everybody in order, `controller_requests`
the one through which a broker asks for a change. `controller` stands between the two, with
`broker_controller` and `broker_sessions` for brokers and `controller_queue` and `decisions` for the
order of things; `listeners` is shared by all stores. `kraft` implements the store for the nodes of
a quorum, of one voter or of several, in KRaft's own files; `raft` decides there. They stand on
`formatting` (whose directory), `quorum` (who votes), `journal` and `snapshots` (batches on disk),
`record_codec` and `replay` (records to changes). `zookeeper` translates between changes and the
nodes of Kafka's ZooKeeper tree.
"""
