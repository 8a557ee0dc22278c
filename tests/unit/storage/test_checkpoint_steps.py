"""The offsets of thousands of logs are noted for a checkpoint some at a time."""

from __future__ import annotations

from kits import log_kit
from kits.slicing import count_pauses, finished
from moldau.base.ids import PartitionKey
from moldau.storage.directory import LOGS_PER_STEP


def test_offsets_are_noted_in_steps():
    disk = log_kit.Broker()
    for index in range(LOGS_PER_STEP + 1):
        key = PartitionKey("t", index)
        disk.manager.open_or_create(key, bytes(16), disk.config)
    (noting,) = disk.manager.prepare_checkpoints_in_steps(lambda key: 0)
    assert count_pauses(noting) == 1


def test_a_log_that_is_made_again_meanwhile_is_not_noted_as_the_old_one():
    disk = log_kit.Broker()
    for index in range(LOGS_PER_STEP + 1):
        disk.manager.open_or_create(PartitionKey("t", index), bytes(16), disk.config)
    last = PartitionKey("t", LOGS_PER_STEP)
    log_kit.append_values(disk.manager.get(last), b"v")
    (noting,) = disk.manager.prepare_checkpoints_in_steps(lambda key: 7)
    next(noting)
    disk.manager.delete(last)
    disk.manager.open_or_create(last, b"another topic..!", disk.config)
    write = finished(noting)
    assert last not in disk.manager.directories[0].high_watermarks
    write()
