"""How a cleaning reads what was aborted: along with the batches, each index once in a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.compaction_kit import (
    COMPACTED,
    finish_cleaning,
    keyed_batch,
    pairs,
    roll_and_clean,
    start_cleaning,
    write,
)
from kits.log_kit import Broker, append, marker
from moldau.base.errors import CorruptRecords
from moldau.sim.disk import SimDisk
from moldau.storage.compaction import source
from moldau.storage.indexes import ABORTED_ENTRY_SIZE


@pytest.fixture
def broker() -> Broker:
    return Broker(config=COMPACTED)


def filled(broker: Broker, count: int = 6):
    """A log with one aborted transaction in every segment but the last."""
    log = broker.log()
    for number in range(count):
        content = [(b"k%d" % number, b"aborted")]
        append(log, keyed_batch(content, producer=(7, 0, number), transactional=True))
        log.append_marker(*marker(7, 0, aborted=True), 0, transaction_version=1)
        write(log, (b"k%d" % number, b"v" * 400))
        log.roll()
    return log


def test_each_index_is_opened_once_in_each_pass(broker, monkeypatch):
    filled(broker)
    cleaning = start_cleaning(broker)
    opened: list[str] = []
    really_open = SimDisk.open

    def noting(disk, path, *, create=False):
        opened.append(path)
        return really_open(disk, path, create=create)

    monkeypatch.setattr(SimDisk, "open", noting)
    finish_cleaning(broker, cleaning)
    indexes = [path[-29:] for path in opened if path.endswith(".txnindex")]
    assert indexes == [f"{3 * number:020d}.txnindex" for number in range(6)] * 2


def test_half_an_entry_that_is_being_written_is_not_read(broker):
    log = filled(broker)
    append(log, keyed_batch([(b"k0", b"x")], producer=(7, 0, 6), transactional=True))
    log.append_marker(*marker(7, 0, aborted=True), 0, transaction_version=1)
    cleaning = start_cleaning(broker, stable=18)
    broker.disk.open(log.active.stem + ".txnindex").truncate(33)
    finish_cleaning(broker, cleaning)
    assert {value[:1] for _, _, value in pairs(log)[:-1]} == {b"v"}


def test_half_an_entry_in_a_closed_one_is_an_error(broker):
    log = filled(broker)
    cleaning = start_cleaning(broker)
    broker.disk.open(log.segments[1].stem + ".txnindex").truncate(33)
    with pytest.raises(CorruptRecords, match="half an entry"):
        finish_cleaning(broker, cleaning)


def test_an_index_of_several_pieces_is_read_whole(monkeypatch):
    monkeypatch.setattr(source, "ABORTED_CHUNK", 2 * ABORTED_ENTRY_SIZE)
    broker = Broker(config=replace(COMPACTED, segment_bytes=10_000))
    log = broker.log()
    for number in range(7):
        content = [(b"k", b"aborted")]
        append(log, keyed_batch(content, producer=(7 + number, 0, 0), transactional=True))
    for number in reversed(range(7)):
        log.append_marker(*marker(7 + number, 0, aborted=True), 0, transaction_version=1)
    entries = list(log.active.aborted())
    write(log, (b"z", b"end"))
    roll_and_clean(broker)
    assert pairs(log) == [(14, b"z", b"end")]
    assert [one for segment in log.segments for one in segment.aborted()] == entries
