"""Compaction: of the records with one key a compacted log keeps the newest.

`choice` says which log is worth the work and what of it may be touched; `work` does it, in another
process and on files alone: `keys` remembers where each key was written last, `batches` copies what
is still the newest, both by what `scan` finds; `transactions` tells what was aborted, `output`
writes the new segment beside the old ones; `swap` lets it take their place, on the event loop. The
broker's cleaner, which calls them in turn, is `server.compaction`.

Everything follows Kafka's cleaner: offsets and records never change, only disappear; the segment
being written, and whatever is undecided or not committed, is never touched; a deleted key's
tombstone and a transaction's marker stay for `delete.retention.ms` after the first cleaning that
could have removed them (KIP-534).
"""
