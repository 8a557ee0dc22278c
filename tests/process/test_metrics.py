"""The metrics page of a running broker, read as Prometheus reads it."""

from confluent_kafka import Consumer, Producer

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.ports import free_port
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.metrics_page import scrape, scrape_if_ready

TIMEOUT_S = 60
GROUPS = "kafka_coordinator_group_groupmetadatamanager"
GROUP_COORDINATOR = "kafka_server_group_coordinator_metrics"
TRANSACTION_COORDINATOR = "kafka_server_transaction_coordinator_metrics"
CLEANER = "kafka_log_logcleanermanager"


def scrape_until(page, name, labels=()):
    """Return what the page says once this is above zero."""
    return eventually(
        lambda: samples if (samples := scrape_if_ready(page)).get((name, labels), 0) > 0 else None,
        f"{name} is told",
    )


def test_what_was_produced_is_counted_under_kafkas_names(tmp_path):
    page = f"127.0.0.1:{free_port()}"
    with (
        MoldauNode(tmp_path, {"moldau.metrics.listen": page}) as broker,
        Producer({"bootstrap.servers": broker.address, "acks": "all"}) as producer,
    ):
        for _ in range(10):
            producer.produce("counted", b"x" * 100)
        assert producer.flush(TIMEOUT_S) == 0
        samples = scrape_until(page, "moldau_event_loop_lag_seconds_count")
    topic = (("topic", "counted"),)
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", topic] == 10
    assert samples["kafka_server_brokertopicmetrics_bytesin_total", topic] > 1000
    log = (("partition", "0"), ("topic", "counted"))
    assert samples["kafka_log_log_logendoffset", log] == 10
    assert samples["kafka_log_log_size", log] > 1000
    directory = (("logDirectory", str(tmp_path / "data")),)
    free = samples["moldau_log_directory_free_bytes", directory]
    assert 0 < free <= samples["moldau_log_directory_total_bytes", directory]
    produce = (("request", "Produce"),)
    assert samples["kafka_network_requestmetrics_requests_total", produce] >= 1
    assert samples["moldau_request_seconds_count", produce] >= 1
    assert samples["kafka_server_socket_server_metrics_connection_count", ()] >= 1
    assert samples["kafka_server_replicamanager_leadercount", ()] == 1
    assert samples["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0
    assert samples["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert samples["kafka_controller_kafkacontroller_activebrokercount", ()] == 1
    assert samples["kafka_controller_kafkacontroller_offlinepartitionscount", ()] == 0
    recent = samples["moldau_event_loop_lag_max_seconds", (("since", "minute"),)]
    assert 0 < recent == samples["moldau_event_loop_lag_max_seconds", (("since", "start"),)]


def test_groups_and_transactions_are_told_while_they_last_and_after_a_restart(tmp_path):
    page = f"127.0.0.1:{free_port()}"
    settings = {"moldau.metrics.listen": page, "group.initial.rebalance.delay.ms": "0"}
    with MoldauNode(tmp_path, settings) as broker:
        create_topic(broker.address, "copied", partitions=2)
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "copier"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("copied", b"x", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = member(broker.address)
        samples = scrape(page)
        assert samples[f"{GROUPS}_numgroups", ()] == 1
        assert samples[f"{GROUPS}_numgroupsstable", ()] == 1
        assert samples[f"{GROUPS}_numgroupsempty", ()] == 0
        assert samples[f"{GROUP_COORDINATOR}_group_count", (("protocol", "classic"),)] == 1
        assert samples[f"{GROUP_COORDINATOR}_group_completed_rebalance_count", ()] == 1
        assert samples["moldau_transactional_ids", (("state", "Ongoing"),)] == 1
        assert samples[f"{TRANSACTION_COORDINATOR}_num_partitions", (("state", "active"),)] == 50
        positions = consumer.assignment()
        for each in positions:
            each.offset = 0
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction(TIMEOUT_S)
        consumer.close()
        producer.close()
        samples = scrape_until(page, "moldau_transactions_total", (("result", "commit"),))
        assert samples["moldau_transactions_total", (("result", "abort"),)] == 0
        assert samples["moldau_transactions_timed_out_total", ()] == 0
        assert samples[f"{GROUP_COORDINATOR}_offset_commit_count", ()] == 2
        assert samples[f"{GROUPS}_numoffsets", ()] == 2
        assert samples[f"{GROUPS}_numgroupsempty", ()] == 1
        labels = [(("group", "g"), ("partition", one), ("topic", "copied")) for one in "01"]
        assert [samples["moldau_group_committed_offset", one] for one in labels] == [0, 0]
        assert samples["moldau_group_committed_offsets_left_out", ()] == 0
    with MoldauNode(tmp_path, settings):
        # Both coordinators load in the background, partition by partition.
        scrape_until(page, "moldau_transactional_ids", (("state", "CompleteCommit"),))
        samples = scrape_until(page, f"{GROUPS}_numoffsets")
        assert samples[f"{GROUP_COORDINATOR}_partition_load_time_avg", ()] > 0
        assert samples[f"{TRANSACTION_COORDINATOR}_partition_load_time_max", ()] > 0
        assert samples[f"{GROUPS}_numoffsets", ()] == 2
        assert samples["moldau_transactional_ids", (("state", "CompleteCommit"),)] == 1


def member(address):
    """Join a group and wait for both partitions.

    It commits nothing by itself: what it has seen of the transaction before it is closed would
    count among the commits.
    """
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.subscribe(["copied"])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    return consumer


def test_the_cleaner_tells_what_it_did(tmp_path):
    page = f"127.0.0.1:{free_port()}"
    settings = {"moldau.metrics.listen": page, "log.cleaner.backoff.ms": "50"}
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "flush.messages": "1",
    }
    with MoldauNode(tmp_path, settings) as broker:
        create_topic(broker.address, "compacted", config=config)
        with Producer({"bootstrap.servers": broker.address, "linger.ms": 0}) as producer:
            for _ in range(20):
                producer.produce("compacted", b"v" * 200, key=b"k")
                assert producer.flush(TIMEOUT_S) == 0
        samples = scrape_until(page, "moldau_cleaner_read_bytes_total")
    read_bytes = samples["moldau_cleaner_read_bytes_total", ()]
    assert samples["moldau_cleaner_written_bytes_total", ()] < read_bytes
    assert 0 <= samples[f"{CLEANER}_max_dirty_percent", ()] <= 100
    assert samples[f"{CLEANER}_time_since_last_run_ms", ()] >= 0
    assert samples["kafka_log_logcleaner_cleaner_recopy_percent", ()] < 100
    directory = (("logDirectory", str(broker.data)),)
    assert samples[f"{CLEANER}_uncleanable_partitions_count", directory] == 0
