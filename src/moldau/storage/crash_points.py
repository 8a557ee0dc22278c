"""All crash points of the storage floor: one before and one after each durable step.

`tests/sim/test_storage_crashes.py` crashes at each of them, and checks that this list matches the
calls in the code. `tests/sim/test_compaction_crashes.py` does so for compaction. A new durable step
needs crash points here.
"""

from __future__ import annotations

from typing import Final

CRASH_POINTS: Final = (
    "segment.create.before_open",
    "segment.create.after_open",
    "segment.append.before_write",
    "segment.append.after_write",
    "segment.truncate.before_cut",
    "segment.truncate.after_cut",
    "segment.indexes.before_times",
    "segment.indexes.before_offsets",
    "segment.indexes.after_offsets",
    "segment.schedule_delete.before_log",
    "segment.schedule_delete.after_log",
    "segment.abort.before_entry",
    "segment.abort.after_entry",
    "log.roll.before_store",
    "log.roll.before_snapshot",
    "log.roll.before_create",
    "log.roll.after_create",
    "log.snapshot.before_rename",
    "log.snapshot.after_rename",
    "log.truncate.before_checkpoint",
    "log.truncate.before_removal",
    "log.truncate.before_sync",
    "log.truncate.before_cut",
    "log.truncate.after_cut",
    "log.restart.before_removal",
    "log.restart.before_create",
    "log.restart.after_create",
    "log.retain.before_removal",
    "log.retain.after_removal",
    "flush.before_sync",
    "flush.before_indexes",
    "flush.before_folder",
    "flush.before_epochs",
    "flush.after_epochs",
    "log.close.before_indexes",
    "log.close.before_flush",
    "log.close.after_flush",
    "recovery.before_swap",
    "recovery.after_rename",
    "recovery.after_swap",
    "recovery.before_cut",
    "recovery.after_cut",
    "recovery.before_removal",
    "manager.create.before_folder",
    "manager.create.before_topic_id",
    "manager.create.after_topic_id",
    "manager.delete.before_rename",
    "manager.delete.after_rename",
    "manager.open.before_clean_mark_removal",
    "manager.open.after_clean_mark_removal",
    "manager.checkpoint.before_recovery_points",
    "manager.checkpoint.before_log_starts",
    "manager.checkpoint.before_high_watermarks",
    "manager.checkpoint.after_high_watermarks",
    "manager.close.before_checkpoints",
    "manager.close.before_clean_mark",
    "manager.close.after_clean_mark",
)

COMPACTION_POINTS: Final = (
    "compaction.write.before_create",
    "compaction.write.before_append",
    "compaction.write.before_sync",
    "compaction.write.before_indexes",
    "compaction.write.after_indexes",
    "compaction.swap.before_ready",
    "compaction.swap.after_rename",
    "compaction.swap.after_ready",
    "compaction.swap.after_schedule_delete",
    "compaction.swap.after_names",
    "compaction.swap.after_snapshots",
    "compaction.before_sync",
    "compaction.after_sync",
    "compaction.checkpoint.before_write",
    "compaction.checkpoint.after_write",
)
"""Reached only if a log is compacted."""
