"""Compaction: a compacted log keeps the newest record of every key.

- `choice` selects the logs to clean and the segments that may be cleaned;
- `work` cleans in another process, which only reads and writes files;
- `source` reads the old segments for it, and `output` writes the new one beside them;
- `keys` collects the newest offset of every key, and `batches` copies the records to keep;
- `scan` parses records fast for both, and `transactions` tracks which batches were aborted;
- `swap` replaces the old segments by the new one, on the event loop.

`server.upkeep.compaction` is the broker's cleaner, which calls them.

The rules are those of Kafka's cleaner. Compaction removes records and never changes an offset or a
record. It does not touch the active segment, open transactions or uncommitted records. Tombstones
and transaction markers stay for `delete.retention.ms` after the first cleaning that could have
removed them (KIP-534).
"""
