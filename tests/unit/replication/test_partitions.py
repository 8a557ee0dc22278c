"""Partitions are found by name and by topic id, and missed for the right reason."""

from kits import log_kit
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions

ORDERS = TopicId(bytes([1] * 16))


def partition(index, topic_id=ORDERS, name="orders"):
    disk, key = log_kit.Broker(), PartitionKey(name, index)
    log = disk.manager.open_or_create(key, topic_id, disk.config)
    return Partition(key, topic_id, log, 1)


def test_a_partition_that_cannot_be_served_is_not_one_that_nobody_knows():
    every = Partitions()
    every.add(partition(0))
    every.add_offline(PartitionKey("orders", 1), ORDERS)
    assert every.get("orders", 1) is None
    assert every.missing("orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert every.missing("orders", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.key.partition for one in every] == [0]


class Elsewhere:
    """A cluster with one partition of a topic, on another broker."""

    def topic_name(self, topic_id):
        return "orders" if topic_id == ORDERS else None

    def has_partition(self, topic, index):
        return (topic, index) == ("orders", 0)


def test_a_partition_on_another_broker_is_looked_for_there():
    every = Partitions(Elsewhere())
    assert every.topic_name(ORDERS) == "orders"
    assert every.missing("orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert every.missing("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    every.add_offline(PartitionKey("orders", 0), ORDERS)
    assert every.missing("orders", 0) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_all_of_whose_logs_are_offline_is_still_found_by_its_id():
    every = Partitions()
    every.add_offline(PartitionKey("orders", 0), ORDERS)
    assert every.topic_name(ORDERS) == "orders"


def test_all_partitions_of_a_topic_are_listed_also_with_gaps_between_them():
    every = Partitions()
    every.add(partition(0))
    every.add_offline(PartitionKey("orders", 3), ORDERS)
    every.add(partition(7))
    assert [key.partition for key in every.keys_of(ORDERS)] == [0, 3, 7]


def test_a_topic_is_forgotten_with_its_last_partition():
    every = Partitions()
    every.add(partition(0))
    every.add_offline(PartitionKey("orders", 1), ORDERS)
    every.remove(PartitionKey("orders", 0))
    assert every.topic_name(ORDERS) == "orders"
    every.remove(PartitionKey("orders", 1))
    assert every.topic_name(ORDERS) is None
    assert every.keys_of(ORDERS) == ()
    assert every.missing("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_comes_back_is_served_and_counted_once():
    every = Partitions()
    every.add_offline(PartitionKey("orders", 0), ORDERS)
    every.add(partition(0))
    assert every.get("orders", 0) is not None
    every.remove(PartitionKey("orders", 0))
    assert every.topic_name(ORDERS) is None


def test_those_who_wait_for_a_partition_hear_of_its_removal():
    every = Partitions()
    gone = partition(0)
    every.add(gone)

    class Watcher:
        heard = None

        def moved(self, partition):
            self.heard = partition

    watcher = Watcher()
    gone.watch(watcher)
    every.remove(gone.key)
    assert watcher.heard is gone
