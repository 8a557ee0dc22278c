"""The cluster's metadata: what it contains, how it changes, where it is stored.

`model` holds the things (topics, partitions, brokers), `changes` every kind of change, `image` the
state after a sequence of changes. `placement`, `topics`, `configs` and `brokers` decide, without
side effects: they get an image and return changes. `store` is the port that makes changes durable
and tells all brokers in order. `controller_requests` is the port through which a broker asks for a
change. `controller`, with its queue `decisions`, connects the two. `listeners` is shared by all
stores.

`embedded` implements the store for one broker in KRaft's own files: `formatting` (to whom a
directory belongs), `quorum` (who leads), `journal` and `snapshots` (batches on disk),
`record_codec` and `replay` (from records to changes).

    request -> controller -> decision on the image -> changes -> store: durable -> image, listeners
"""
