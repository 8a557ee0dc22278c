"""What recovery cuts is said, kept as `.cut`, and goes with retention."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kits.log_kit import FOLDER, KEY, NOW_MS, Broker, append, read_all, sized_batch
from moldau.base.files import read_whole
from moldau.storage.cuts import CutFile, expired_cuts
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
DAY_MS = 24 * 3_600_000


@pytest.fixture
def broker() -> Broker:
    """Have ten records of 400 bytes in five segments."""
    made = Broker(config=CONFIG)
    for _ in range(10):
        append(made.log(), sized_batch(400))
    return made


def log_path(base_offset: int) -> str:
    return f"{FOLDER}/{base_offset:020d}.log"


def cut_names(broker: Broker) -> list[str]:
    return [name for name in broker.disk.names(FOLDER) if name.endswith(".cut")]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def remove_expired(broker, now_ms):
    for remove in broker.manager.prepare_cut_removals(now_ms):
        remove()


def test_a_torn_tail_is_said_and_kept(broker, caplog):
    torn = sized_batch(400)[:123]
    broker.disk.open(log_path(8)).append([torn])
    again = broker.kill()
    name = f"{8:020d}.log.800.{NOW_MS}.cut"
    assert cut_names(again) == [name]
    assert read_whole(again.disk, f"{FOLDER}/{name}") == torn
    (line,) = warnings(caplog)
    assert line == (
        f"{KEY}: {log_path(8)}: cut at position 800 (only 123 of 400 bytes are there);"
        f" 123 bytes are kept in {FOLDER}/{name};"
        " last offset kept 9, first lost 10 if it was a record"
    )


def test_damage_in_the_middle_names_what_is_lost_and_keeps_every_byte(broker, caplog):
    broker.sim().flip_bit(log_path(4), 300)
    before = {base: read_whole(broker.disk, log_path(base)) for base in (4, 6, 8)}
    again = broker.kill()
    assert again.log().log_end_offset == 4
    kept = {name.partition(".")[0]: name for name in cut_names(again)}
    assert sorted(map(int, kept)) == [4, 6, 8]
    for base, content in before.items():
        assert read_whole(again.disk, f"{FOLDER}/{kept[f'{base:020d}']}") == content
    tail, behind = warnings(caplog)
    assert "cut at position 0 (the CRC does not match)" in tail
    assert "last offset kept 3, lost 2 offset(s) from 4 to 5" in tail
    assert "removed with the 1 segment(s) behind it (the CRC does not match)" in behind
    assert "1600 bytes are kept in" in behind
    assert "last offset kept 3, lost 4 offset(s) from 6 to 9" in behind


def test_zeros_are_said_and_not_kept(broker, caplog):
    broker.disk.open(log_path(8)).append([bytes(4096)])
    again = broker.kill()
    assert cut_names(again) == []
    (line,) = warnings(caplog)
    assert "4096 bytes are not kept, as all are zero" in line


def test_an_orderly_stop_and_a_kill_cut_nothing(broker, caplog):
    assert cut_names(broker.stop().kill()) == []
    assert warnings(caplog) == []


def test_what_was_cut_is_never_loaded_and_harms_nothing(broker):
    broker.sim().flip_bit(log_path(4), 300)
    again = broker.kill()
    append(again.log(), sized_batch(400))
    records = read_all(again.log())
    assert len(records) == 5
    for end in (Broker.kill, Broker.stop):
        again = end(again)
        assert read_all(again.log()) == records
        assert len(cut_names(again)) == 3
    again.manager.close({})
    assert not verify_partition(again.disk, FOLDER)


def test_two_cuts_at_one_place_do_not_overwrite_each_other(broker):
    for torn in (b"first", b"second"):
        broker.disk.open(log_path(8)).append([torn])
        broker.clock.now_ms += 1
        broker = broker.kill()
    assert len(cut_names(broker)) == 2


def test_retention_removes_them_once_they_are_old(broker):
    broker.disk.open(log_path(8)).append([b"torn"])
    again = broker.kill()
    remove_expired(again, NOW_MS + 7 * DAY_MS)
    assert len(cut_names(again)) == 1
    # Those of an earlier run are known after a restart, too.
    later = again.stop()
    remove_expired(later, NOW_MS + 7 * DAY_MS + 1)
    assert cut_names(later) == []
    assert not later.manager.directories[0].cuts


def test_retention_bytes_bounds_them_and_a_negative_limit_is_none():
    cuts = [CutFile("a", 10, NOW_MS), CutFile("b", 10, NOW_MS), CutFile("c", 10, NOW_MS)]
    for_ever = replace(CONFIG, retention_ms=-1)
    assert expired_cuts(cuts, for_ever, NOW_MS + 1000 * DAY_MS) == []
    assert expired_cuts(cuts, replace(for_ever, retention_bytes=15), NOW_MS) == cuts[:2]
    assert expired_cuts(cuts, replace(for_ever, retention_bytes=30), NOW_MS) == []


def test_a_deleted_log_takes_its_cuts_with_it(broker):
    broker.disk.open(log_path(8)).append([b"torn"])
    again = broker.kill()
    again.manager.delete(KEY)
    assert not again.manager.directories[0].cuts
    remove_expired(again, NOW_MS + 100 * DAY_MS)
