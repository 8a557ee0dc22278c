"""The cluster's metadata: what it is, how it changes, who keeps it.

`model` holds the nouns, `changes` the verbs, `image` the state that a sequence of changes adds up
to. `placement`, `topics` and `brokers` decide: image in, changes out, nothing done. `store` is
the port that makes changes durable and tells everybody in order; `embedded` implements it for one
broker, with `journal`, `snapshots` and `record_codec` writing KRaft's own files.
"""
