from __future__ import annotations

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from kits.log_kit import KEY, NOW_MS, TOPIC_ID, Broker, append, append_values, read_all, sized_batch
from moldau.base.clock import SystemClock
from moldau.base.errors import StorageError, UserError
from moldau.base.files import read_whole
from moldau.base.ids import PartitionKey, TopicId
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.trace import REMEMBERED_COUNT, Trace
from moldau.storage.disk import Disk
from moldau.storage.epochs import LEADER_EPOCHS
from moldau.storage.flushing import Flush
from moldau.storage.folder_names import partition_of, set_aside_name
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

OTHER_ID = TopicId(bytes(range(16, 32)))
TWO = ("/one", "/two")


def written_checkpoints(trace: Trace) -> set[str]:
    """Return the kinds of offset checkpoints that were written among the latest events."""
    return set(re.findall(r"sync /data/(\S+)-offset-checkpoint.tmp", "\n".join(trace.last())))


def keys(count: int) -> list[PartitionKey]:
    return [PartitionKey("spread", number) for number in range(count)]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("orders-0", ("orders", 0)),
            ("a-b.c_d-12", ("a-b.c_d", 12)),
            ("orders", None),
            ("orders-x", None),
            ("-1", None),
            (".lock", None),
            ("__cluster_metadata-0", None),
            ("__consumer_offsets-49", ("__consumer_offsets", 49)),
            (f"orders-0.{'0' * 32}-delete", None),
            (f"orders-0.{'a' * 32}-stray", None),
            (f"orders-0.{'a' * 32}-future", None),
        ],
    )
    def test_partition_folders_are_told_from_others(self, name, key):
        assert partition_of(name) == key

    def test_a_deleted_folder_keeps_topic_partition_and_32_digits(self):
        name = set_aside_name(PartitionKey("orders", 3), bytes(16), "-delete")
        assert name == f"orders-3.{'0' * 32}-delete"

    def test_a_long_topic_is_cut_so_that_the_name_fits(self):
        name = set_aside_name(PartitionKey("t" * 249, 12), bytes(16), "-delete")
        assert len(name) == 255
        assert name.endswith(f"t-12.{'0' * 32}-delete")


class TestOpening:
    def test_a_directory_in_use_is_refused(self):
        broker = Broker()
        with pytest.raises(UserError, match="/data is in use"):
            Broker(broker.sim().another_process())

    def test_it_is_free_after_the_stop(self):
        broker = Broker()
        broker.manager.close({})
        Broker(broker.sim().another_process())

    def test_the_identity_is_written_once_and_kept(self):
        broker = Broker()
        first = broker.manager.directories[0].identity
        again = broker.stop().manager.directories[0].identity
        assert again == first
        assert (first.cluster_id, first.node_id) == ("cluster", 1)

    @pytest.mark.parametrize(
        "line", ["node.id=2\ncluster.id=cluster", "node.id=1\ncluster.id=another"]
    )
    def test_another_brokers_directory_is_refused_and_let_go(self, line):
        disk = SimDisk(random.Random(1))
        disk.make_folder("/data")
        content = f"version=1\n{line}\n".encode()
        disk.open("/data/meta.properties", create=True).append([content])
        with pytest.raises(UserError, match="belongs to"):
            Broker(disk)
        disk.lock("/data/.lock").release()

    def test_one_failing_directory_stays_offline_alone(self):
        disk = SimDisk(random.Random(1))
        disk.faults.fail(Operation.OPEN, "/one")
        broker = Broker(disk, directories=TWO)
        assert [error.path for error in broker.errors] == ["/one"]
        assert [directory.offline for directory in broker.manager.directories] == [True, False]

    def test_none_that_works_is_the_users_problem(self):
        disk = SimDisk(random.Random(1))
        disk.faults.fail(Operation.OPEN, "/data")
        with pytest.raises(UserError, match="no log directory"):
            Broker(disk)

    def test_a_directory_that_cannot_be_loaded_goes_offline_alone(self):
        broker = Broker(directories=TWO)
        for key in keys(2):
            append_values(broker.manager.open_or_create(key, TOPIC_ID, LogConfig()), b"a")
        disk = broker.sim().kill()
        disk.faults.fail(Operation.READ, "/one/spread-0")
        again = Broker(disk, directories=TWO)
        assert [str(key) for key, _ in again.manager] == ["spread-1"]
        assert again.manager.directories[0].failure is not None


class TestLogs:
    def test_new_ones_go_where_the_fewest_are(self):
        broker = Broker(directories=TWO)
        for key in keys(5):
            broker.manager.open_or_create(key, TOPIC_ID, LogConfig())
        assert [len(directory.logs) for directory in broker.manager.directories] == [3, 2]
        assert len(broker.manager) == 5

    def test_creating_makes_a_log_and_its_topic_id_and_no_more(self):
        broker = Broker()
        broker.log()
        assert broker.disk.names("/data/orders-0") == [
            "00000000000000000000.log",
            "partition.metadata",
        ]
        content = read_whole(broker.disk, "/data/orders-0/partition.metadata")
        assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"

    def test_creating_waits_for_no_disk(self):
        broker = Broker()
        broker.sim().faults.fail(Operation.SYNC, "/data")
        broker.sim().faults.fail(Operation.SYNC_FOLDER, "/data")
        broker.log()

    def test_the_same_log_is_given_again(self):
        broker = Broker()
        assert broker.log() is broker.log()
        assert broker.manager.get(PartitionKey("unknown", 0)) is None

    def test_the_topic_id_is_read_back(self):
        broker = Broker()
        broker.log()
        assert broker.stop().manager.get(KEY).topic_id == TOPIC_ID

    def test_a_log_of_an_older_topic_of_the_name_is_set_aside(self):
        broker = Broker()
        append_values(broker.log(), b"old")
        log = broker.manager.open_or_create(KEY, OTHER_ID, LogConfig())
        assert log.log_end_offset == 0
        strays = [name for name in broker.disk.names("/data") if name.endswith("-stray")]
        assert len(strays) == 1
        assert strays[0].startswith("orders-0.")

    def test_no_second_log_is_made_while_the_first_may_be_in_an_offline_directory(self):
        broker = Broker(directories=TWO)
        broker.manager.directory_failed(StorageError("/one/x", "broken"))
        with pytest.raises(StorageError, match="/one"):
            broker.log()

    def test_high_watermarks_are_those_of_the_checkpoint_within_the_log(self):
        broker = Broker()
        log = broker.log()
        for _ in range(5):
            append_values(log, b"a")
        for write in broker.manager.prepare_checkpoints({KEY: 3}):
            write()
        again = broker.kill()
        assert again.manager.high_watermark(KEY, again.log()) == 3
        again.log().truncate_to(2)
        assert again.manager.high_watermark(KEY, again.log()) == 2


class TestDeleting:
    def test_the_folder_is_renamed_at_once_and_removed_after_the_delay(self):
        broker = Broker()
        log = broker.log()
        append_values(log, b"a")
        region = log.read(0, 100, 1).regions[0]
        broker.manager.delete(KEY)
        assert broker.manager.get(KEY) is None
        renamed = [name for name in broker.disk.names("/data") if name.endswith("-delete")]
        assert len(renamed) == 1
        broker.remove_expired(NOW_MS + 59_999)
        assert broker.disk.exists(f"/data/{renamed[0]}")
        broker.remove_expired(NOW_MS + 60_000)
        assert not broker.disk.exists(f"/data/{renamed[0]}")
        assert region.file.read(0, 10)

    def test_each_is_removed_by_a_call_of_its_own(self):
        broker = Broker()
        for index in range(5):
            key = PartitionKey("t", index)
            broker.manager.open_or_create(key, TOPIC_ID, broker.config)
            broker.manager.delete(key)
        left = [5]
        for remove in broker.manager.prepare_removals(NOW_MS + 60_000):
            remove()
            left.append(sum(name.endswith("-delete") for name in broker.disk.names("/data")))
        assert left == [5, 4, 3, 2, 1, 0]
        assert broker.remove_expired(NOW_MS + 60_000) == 0

    def test_it_can_be_made_anew_at_once(self):
        broker = Broker()
        append_values(broker.log(), b"a")
        broker.manager.delete(KEY)
        assert broker.log().log_end_offset == 0

    def test_a_removal_that_was_interrupted_goes_on_after_the_start(self):
        broker = Broker()
        append_values(broker.log(), b"a")
        broker.manager.delete(KEY)
        again = broker.kill()
        assert len(again.manager) == 0
        assert again.remove_expired(NOW_MS) == 1
        assert not [name for name in again.disk.names("/data") if "orders" in name]


class TestFailing:
    def test_a_failed_directory_takes_its_logs_offline_and_the_others_go_on(self):
        broker = Broker(directories=TWO)
        first, second = (
            broker.manager.open_or_create(key, TOPIC_ID, LogConfig()) for key in keys(2)
        )
        broker.sim().faults.fail(Operation.APPEND, "/one")
        with pytest.raises(StorageError) as failed:
            append_values(first, b"a")
        assert broker.manager.directory_failed(failed.value).path == "/one"
        assert first.offline
        append_values(second, b"b")
        assert len(read_all(second)) == 1

    def test_paths_of_nobody_fail_nothing(self):
        broker = Broker(directories=("/data", "/data2"))
        assert broker.manager.directory_failed(StorageError("/elsewhere", "x")) is None
        assert broker.manager.directory_failed(StorageError("/data2/a", "x")).path == "/data2"
        assert not broker.manager.directories[0].offline

    def test_a_directory_that_fails_at_the_stop_gets_no_clean_mark(self):
        broker = Broker(directories=TWO)
        for key in keys(2):
            append_values(broker.manager.open_or_create(key, TOPIC_ID, LogConfig()), b"a")
        broker.sim().faults.fail(Operation.SYNC, "/one")
        broker.manager.close({})
        assert not broker.disk.exists("/one/.kafka_cleanshutdown")
        assert broker.disk.exists("/two/.kafka_cleanshutdown")


class TestChores:
    def test_retention_asks_for_each_high_watermark(self):
        config = LogConfig(segment_bytes=500, retention_bytes=0)
        broker = Broker(config=config)
        for _ in range(3):
            append(broker.log(), sized_batch(400))
        assert broker.manager.retain(NOW_MS, lambda key: 0) == 0
        assert broker.manager.retain(NOW_MS, lambda key: 2) == 2

    def test_a_log_that_rolled_is_due_for_a_flush_once(self):
        broker = Broker(config=LogConfig(segment_bytes=500))
        log = broker.log()
        append(log, sized_batch(400))
        assert broker.manager.due_for_flush(NOW_MS) == []
        append(log, sized_batch(400))
        assert broker.manager.due_for_flush(NOW_MS) == [log]
        assert broker.manager.due_for_flush(NOW_MS) == []

    def test_flush_ms_makes_it_due_too(self):
        broker = Broker(config=LogConfig(flush_ms=100))
        log = broker.log()
        append_values(log, b"a")
        assert broker.manager.due_for_flush(NOW_MS + 99) == []
        assert broker.manager.due_for_flush(NOW_MS + 100) == [log]

    def test_checkpoints_hold_only_starts_that_the_files_do_not_tell(self):
        broker = Broker()
        log = broker.log()
        append_values(log, b"a", b"b")
        broker.checkpoint()
        assert read_whole(broker.disk, "/data/log-start-offset-checkpoint") == b"0\n0\n"
        log.delete_records_before(2)
        broker.checkpoint()
        starts = read_whole(broker.disk, "/data/log-start-offset-checkpoint")
        assert starts == b"0\n1\norders 0 2\n"

    @pytest.mark.parametrize(
        ("change", "written"),
        [
            (lambda broker: None, set()),
            (lambda broker: broker.flush(broker.log()), {"recovery-point"}),
            (lambda broker: broker.log().delete_records_before(1), {"log-start"}),
            (lambda broker: broker.log(PartitionKey("new", 0)), {"recovery-point"}),
            (lambda broker: broker.manager.delete(KEY), {"recovery-point"}),
        ],
        ids=["nothing", "flush", "deleted records", "another log", "a log less"],
    )
    def test_only_a_checkpoint_that_has_something_new_to_say_is_written(self, change, written):
        trace = Trace()
        broker = Broker(SimDisk(random.Random(1), trace=trace))
        append_values(broker.log(), b"a", b"b")
        broker.log(PartitionKey("idle", 0))
        broker.checkpoint()
        assert written_checkpoints(trace) == {"log-start", "recovery-point", "replication"}
        change(broker)
        for event in range(REMEMBERED_COUNT):
            trace.note("filler", event)
        broker.checkpoint()
        assert written_checkpoints(trace) == written

    def test_high_watermarks_are_written_when_one_has_moved(self):
        trace = Trace()
        broker = Broker(SimDisk(random.Random(1), trace=trace))
        append_values(broker.log(), b"a", b"b")
        for high_watermark, written in ((1, True), (1, False), (2, True), (2, False)):
            before = trace.count
            for write in broker.manager.prepare_checkpoints({KEY: high_watermark}):
                write()
            assert (trace.count > before) == written

    def test_a_checkpoint_is_written_again_after_a_write_that_failed(self):
        broker = Broker()
        broker.log()
        broker.checkpoint()
        broker.sim().faults.fail(Operation.SYNC_FOLDER, "/data", times=1)
        (write,) = broker.manager.prepare_checkpoints({KEY: 7})
        with pytest.raises(StorageError):
            write()
        broker.checkpoint()
        assert read_whole(broker.disk, "/data/replication-offset-checkpoint") == b"0\n0\n"

    def test_a_checkpoint_from_before_a_truncation_does_not_raise_the_recovery_point(self):
        broker = Broker()
        log = broker.log()
        for _ in range(4):
            append_values(log, b"a")
        broker.flush(log)
        (late,) = broker.manager.prepare_checkpoints({})
        log.truncate_to(1)
        late()
        content = read_whole(broker.disk, "/data/recovery-point-offset-checkpoint")
        assert content == b"0\n1\norders 0 1\n"

    def test_the_clean_mark_carries_the_broker_epoch(self):
        broker = Broker()
        broker.manager.close({}, broker_epoch=42)
        mark = read_whole(broker.disk, "/data/.kafka_cleanshutdown")
        assert mark == b'{"version":0,"brokerEpoch":42}'


class TestAFlushDuringADeletion:
    """A sync takes its time on another thread; meanwhile its topic goes and another comes."""

    @pytest.fixture(params=["simulated", "real"])
    def broker(self, request, tmp_path):
        if request.param == "simulated":
            return Broker()
        return Broker(Disk(), directories=(f"{tmp_path}/data",))

    def deleted_under(self, broker: Broker) -> tuple[Flush, Log]:
        old = broker.log()
        append_values(old, b"old", epoch=5)
        flush = old.prepare_flush()
        assert flush is not None
        broker.manager.delete(KEY)
        return flush, old

    def test_the_new_log_does_not_get_the_old_ones_epochs(self, broker):
        flush, _ = self.deleted_under(broker)
        new = broker.manager.open_or_create(KEY, OTHER_ID, broker.config, new=True)
        flush.run()
        assert not broker.disk.exists(f"{new.folder}/{LEADER_EPOCHS}")
        append_values(new, b"new", epoch=1)
        broker.flush(new)
        content = read_whole(broker.disk, f"{new.folder}/{LEADER_EPOCHS}")
        assert content == b"0\n1\n1 0\n"

    def test_a_log_whose_files_are_gone_does_not_take_its_directory_offline(self, broker):
        flush, old = self.deleted_under(broker)
        assert broker.remove_expired(NOW_MS + old.config.file_delete_delay_ms) == 1
        flush.run()
        broker.manager.open_or_create(KEY, OTHER_ID, broker.config, new=True)
        assert not any(directory.offline for directory in broker.manager.directories)


class TestOnARealDisk:
    def test_descriptors_are_bounded_and_given_back(self, tmp_path):
        def descriptors() -> int:
            links = []
            for descriptor in Path("/proc/self/fd").iterdir():
                with suppress(FileNotFoundError):
                    links.append(descriptor.readlink())
            return sum(link.is_relative_to(tmp_path) for link in links)

        resources = Resources(Disk(), SystemClock(), random.Random(1), open_files=5)
        manager = LogManager(resources, [str(tmp_path)])
        manager.open("cluster", 1, "boot")
        manager.load(lambda topic: LogConfig())
        logs = [manager.open_or_create(key, TOPIC_ID, LogConfig()) for key in keys(20)]
        for _ in range(3):
            for log in logs:
                append_values(log, b"a")
        assert descriptors() <= 6
        assert [len(read_all(log)) for log in logs] == [3] * 20
        region = logs[0].read(0, 100, 3).regions[0]
        for log in logs[1:]:
            read_all(log)
        assert len(region.file.read(region.position, region.size)) == region.size
        del region
        manager.close({})
        assert descriptors() == 0

    def test_everything_survives_a_stop_and_a_kill(self, tmp_path):
        def opened() -> LogManager:
            resources = Resources(Disk(), SystemClock(), random.Random(1))
            manager = LogManager(resources, [str(tmp_path)])
            manager.open("cluster", 1, "boot")
            manager.load(lambda topic: config)
            return manager

        config = LogConfig(segment_bytes=1000)
        manager = opened()
        for number in range(30):
            append_values(manager.open_or_create(KEY, TOPIC_ID, config), b"%d" % number)
        manager.close({})
        manager = opened()
        for number in range(30, 60):
            append_values(manager.get(KEY), b"%d" % number)
        manager.release()
        log = opened().get(KEY)
        assert [record.value for record in read_all(log)] == [b"%d" % n for n in range(60)]


def test_a_stop_with_many_logs_holds_few_files_open(tmp_path):
    """Logs are closed one by one: there may be more of them than descriptors."""
    broker = Broker(Disk(), directories=[str(tmp_path)])
    logs = [broker.log(key) for key in keys(40)]
    for log in logs:
        append_values(log, b"value")
    before = len(list(Path("/proc/self/fd").iterdir()))
    most = 0
    for log, flush in broker.manager.prepare_close():
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        flush.run()
        log.flushed(flush)
    broker.manager.finish_close({}, 1)
    assert most <= before + 4
    again = Broker(Disk(), directories=[str(tmp_path)])
    assert again.reports == {}  # the stop was clean, so nothing was recovered
    again.manager.close({})
