"""The metrics page of a running broker, read as Prometheus reads it."""

import socket
import urllib.request

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from kafka_harness.moldau_node import MoldauNode


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_what_was_produced_is_counted_under_kafkas_names(tmp_path):
    page = f"127.0.0.1:{free_port()}"
    with MoldauNode(tmp_path, {"moldau.metrics.listen": page}) as broker:
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        for _ in range(10):
            producer.produce("counted", b"x" * 100)
        assert producer.flush(20) == 0
        with urllib.request.urlopen(f"http://{page}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    topic = (("topic", "counted"),)
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", topic] == 10
    assert samples["kafka_server_brokertopicmetrics_bytesin_total", topic] > 1000
    log = (("partition", "0"), ("topic", "counted"))
    assert samples["kafka_log_log_logendoffset", log] == 10
    assert samples["kafka_log_log_size", log] > 1000
    produce = (("request", "Produce"),)
    assert samples["kafka_network_requestmetrics_requests_total", produce] >= 1
    assert samples["moldau_request_seconds_count", produce] >= 1
    assert samples["kafka_server_socket_server_metrics_connection_count", ()] >= 1
