"""The cluster's metadata: what it is, how it changes, who keeps it.

`model` holds the nouns, `changes` the verbs, `image` the state that a sequence of changes adds up
to. `placement`, `topics`, `configs` and `brokers` decide: image in, changes out, nothing done.
`store` is the port that makes changes durable and tells everybody in order, `controller_requests`
the one through which a broker asks for a change. `controller` and its queue, `decisions`, stand
between the two; `listeners` is shared by all stores. `embedded` implements the store for one broker
in KRaft's own files: `formatting` (whose directory), `quorum` (who leads), `journal` and
`snapshots` (batches on disk), `record_codec` and `replay` (records to changes).
"""
