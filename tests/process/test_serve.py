"""`moldau serve` as a user meets it: one ready line, orderly ends, refusals in one line.

A refused start changes nothing: the folder is compared before and after, times of change included.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from pathlib import Path

import pytest

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kafka_harness.wire import ask_api_versions
from moldau.base.limits import ELEMENTS_PER_REQUEST
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from process.attack import request_bytes
from process.raw_client import FETCH_VERSION, TIMEOUT_S, RawClient, batch_of, fetch_request
from process.serving import Serving, refused, snapshot

CLEAN_MARK = ".kafka_cleanshutdown"

# What a file of Kafka 4 for one node holds, with the comments, the spaces and the continued line
# that such files have in the wild.
SERVER_PROPERTIES = """
# Licensed to whom it may concern

############################# Server Basics #############################
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093

############################# Socket Server Settings #############################
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,\\
    SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes = 102400
socket.request.max.bytes: 104857600

############################# Log Basics #############################
log.dirs={data}
num.partitions=3
num.recovery.threads.per.data.dir=2

############################# Internal Topic Settings  #############################
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

############################# Log Retention Policy #############################
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a broker has used and left in good order."""
    directory = tmp_path_factory.mktemp("stopped")
    with Serving(directory):
        pass
    return directory / "data"


# Starting and stopping


def test_one_ready_line_on_stdout_names_an_address_that_answers(tmp_path):
    with Serving(tmp_path) as broker:
        assert broker.host == "127.0.0.1"
        assert ask_api_versions(broker.host, broker.port)
        broker.signal(signal.SIGTERM)
        assert broker.read_line() == "", "stdout holds the ready line and nothing else"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of mappings")
def test_a_broker_without_tls_does_not_load_openssl(tmp_path):
    with Serving(tmp_path) as broker:
        assert ask_api_versions(broker.host, broker.port)
        maps = Path(f"/proc/{broker.process.pid}/maps").read_text()
    assert "libcrypto" not in maps
    assert "unicodedata" not in maps  # which names beyond ASCII are read with


def test_a_broker_may_be_asked_over_ipv6(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as reason:
        pytest.skip(f"no IPv6 on this machine: {reason}")
    data = ("--data", str(tmp_path / "data"))
    with Serving(tmp_path, *data, "--listen", "[::1]:0") as broker:
        assert broker.host == "[::1]"
        assert ask_api_versions("::1", broker.port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_stops_the_broker_in_order_with_status_0_and_a_clean_mark(tmp_path, number):
    broker = Serving(tmp_path).start()
    assert not (broker.data / CLEAN_MARK).exists()
    with RawClient((broker.host, broker.port)) as client:
        assert client.create_topic("orders") == 0
        assert client.produce("orders", batch_of([b"kept"])).base_offset == 0
        broker.signal(number)
        assert client.was_closed()
    assert broker.wait() == 0
    assert (broker.data / CLEAN_MARK).exists()
    assert "Traceback" not in broker.errors

    with Serving(tmp_path) as again, RawClient((again.host, again.port)) as client:
        assert not (again.data / CLEAN_MARK).exists()
        assert [record.value for record in client.read_all("orders")] == [b"kept"]
        assert "recovered" not in again.errors


def without_a_voter(tmp_path, **settings):
    """A broker that is to join a controller where nobody listens."""
    overrides = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{free_port()}",
    }
    broker = Serving(tmp_path, overrides=overrides | settings)
    broker.data.mkdir()
    meta = "version=1\nnode.id=2\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    (broker.data / "meta.properties").write_text(meta)
    return broker.launch()


def test_a_signal_ends_a_start_that_waits_for_its_controller(tmp_path):
    broker = without_a_voter(tmp_path)
    eventually(lambda: "cannot be reached" in broker.errors, "it looks for a controller")
    assert broker.stop() == 0
    assert "Traceback" not in broker.errors


def test_a_start_without_a_controller_says_so_and_ends(tmp_path):
    broker = without_a_voter(tmp_path, **{"initial.broker.registration.timeout.ms": "500"})
    assert broker.wait() == 1
    first, last = broker.errors.splitlines()
    assert "metadata cannot be fetched" in first
    assert last.startswith("moldau: no controller has answered at 127.0.0.1:")


def test_a_second_signal_ends_it_at_once(tmp_path):
    broker = Serving(tmp_path).start()
    with RawClient((broker.host, broker.port)):
        # Stopped processes take signals together, so the second is there before the first is done.
        broker.signal(signal.SIGSTOP)
        broker.signal(signal.SIGTERM)
        broker.signal(signal.SIGINT)
        broker.signal(signal.SIGCONT)
        status = broker.wait()
    assert status in {128 + signal.SIGTERM, 128 + signal.SIGINT}
    assert not (broker.data / CLEAN_MARK).exists()
    assert "Traceback" not in broker.errors


def test_clients_that_wait_or_do_not_read_hold_up_no_stop(tmp_path):
    with Serving(tmp_path) as broker:
        address = (broker.host, broker.port)
        with RawClient(address) as waiting, RawClient(address, receive_buffer_size=4096) as slow:
            assert waiting.create_topic("orders") == 0
            for _ in range(10):
                assert waiting.produce("orders", batch_of([bytes(900_000)])).error_code == 0
            waiting.send(fetch_request({("orders", 0): 10}, max_wait_ms=600_000), FETCH_VERSION)
            slow.send(fetch_request({("orders", 0): 0}), FETCH_VERSION)
            assert slow.socket.recv(1), "the answer is on its way"
            assert broker.stop() == 0
            # It may hear that the broker leads no more, but it does not keep it.
            while not waiting.was_closed():
                pass


def test_clients_that_ask_for_all_they_may_hold_up_no_stop(tmp_path):
    """Each goes on with the largest legal request until it is closed.

    A broker that does such work in one go hears of the signal only when each client had an answer.
    """
    partitions = [ListOffsetsPartition(number) for number in range(ELEMENTS_PER_REQUEST - 1)]
    names = [MetadataRequestTopic(name="no topic")] * ELEMENTS_PER_REQUEST
    requests = [
        (ListOffsetsRequest(-1, topics=[ListOffsetsTopic("orders", partitions)]), 5),
        (MetadataRequest(names, allow_auto_topic_creation=False), 9),
    ]
    answers: list[int] = []

    def ask_on_and_on(client, request, number):
        with contextlib.suppress(ConnectionError):
            client.send_frame(request)
            while True:
                client.send_frame(request)
                client.read_frame()
                answers.append(number)

    with Serving(tmp_path) as broker, contextlib.ExitStack() as clients:
        asking = []
        for number, request in enumerate([request_bytes(*one) for one in requests] * 8):
            client = clients.enter_context(RawClient((broker.host, broker.port)))
            thread = threading.Thread(
                target=ask_on_and_on, args=(client, request, number), daemon=True
            )
            thread.start()
            asking.append(thread)
        eventually(lambda: len(set(answers)) == len(asking), "each client has an answer")
        before = len(answers)
        assert broker.stop() == 0
        for thread in asking:
            thread.join(TIMEOUT_S)
        assert len(answers) - before < len(asking) / 2
        assert "has stopped" in broker.errors
        assert "Traceback" not in broker.errors


# Refusals


def test_a_folder_in_use_by_another_broker_is_refused_and_left_alone(tmp_path):
    with Serving(tmp_path) as broker:
        before = snapshot(broker.data)
        line = refused(tmp_path)
        assert str(broker.data) in line
        assert "in use" in line
        assert snapshot(broker.data) == before
        assert ask_api_versions(broker.host, broker.port)


def test_a_folder_of_another_cluster_is_refused_and_neither_is_touched(tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        with Serving(tmp_path, data=folder):
            pass
    before = [snapshot(folder) for folder in folders]
    dirs = ",".join(map(str, folders))
    line = refused(tmp_path, overrides={"log.dirs": dirs})
    assert "cluster" in line
    assert [snapshot(folder) for folder in folders] == before


def test_a_folder_of_another_node_is_refused_and_left_alone(tmp_path, stopped):
    before = snapshot(stopped)
    line = refused(tmp_path, data=stopped, overrides={"node.id": "99"})
    assert "99" in line
    assert snapshot(stopped) == before


def test_a_taken_port_is_refused_with_its_address_and_the_data_is_as_it_was(tmp_path, stopped):
    before = snapshot(stopped)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(tmp_path, "--data", str(stopped), "--listen", f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in line
    assert snapshot(stopped) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.partitions", "many"),
        ("log.segment.bytes", "-5"),
        ("auto.create.topics.enable", "perhaps"),
        ("listeners", "PLAINTEXT://127.0.0.1:99999"),
        ("log.dirs", ""),
        ("node.id", "-3"),
        ("compression.type", "brotli"),
        ("max.connections.per.ip.overrides", "here"),
    ],
)
def test_a_malformed_value_is_refused_by_its_key_before_anything_is_made(tmp_path, key, value):
    line = refused(tmp_path, overrides={key: value})
    assert key in line
    assert not (tmp_path / "data").exists()


def test_an_unreadable_file_and_a_malformed_option_are_refused_in_one_line(tmp_path):
    missing = tmp_path / "missing.properties"
    assert str(missing) in refused(tmp_path, "--config", str(missing))
    assert "KEY=VALUE" in refused(tmp_path, "--override", "nonsense")
    assert "HOST:PORT" in refused(tmp_path, "--listen", "9092")


# Settings


def test_an_unknown_key_warns_once_and_names_the_nearest_known_one(tmp_path):
    with Serving(tmp_path, overrides={"log.retention.hors": "1"}) as broker:
        (line,) = [line for line in broker.errors.splitlines() if "log.retention.hors" in line]
        assert "WARN" in line
        assert "did you mean log.retention.hours?" in line


def test_a_strict_broker_refuses_an_unknown_key(tmp_path):
    options = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--strict-config"]
    line = refused(tmp_path, *options, overrides={"log.retention.hors": "1"})
    assert "log.retention.hors" in line
    assert not (tmp_path / "data").exists()


def test_kafkas_own_file_is_enough(tmp_path):
    config = tmp_path / "server.properties"
    data, port = tmp_path / "kraft-logs", free_port()
    config.write_text(SERVER_PROPERTIES.format(port=port, data=data))
    with Serving(tmp_path, "--config", str(config)) as broker:
        assert broker.port == port
        assert "unknown config" not in broker.errors
        assert "node.id=7" in (data / "meta.properties").read_text()
        with RawClient((broker.host, broker.port)) as client:
            assert client.create_topic("three", partitions=-1) == 0
            assert client.offset("three", 2) == 0


def test_the_environment_goes_before_the_file_and_options_before_both(tmp_path):
    config = tmp_path / "server.properties"
    data = tmp_path / "data"
    config.write_text(
        f"log.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\nnode.id=1\nnum.partitions=2\n"
    )
    environ = {"KAFKA_NODE_ID": "2", "KAFKA_NUM_PARTITIONS": "4"}
    serving = Serving(
        tmp_path, "--config", str(config), overrides={"node.id": "3"}, environ=environ
    )
    with serving as broker, RawClient((broker.host, broker.port)) as client:
        assert "node.id=3" in (data / "meta.properties").read_text()
        assert client.create_topic("four", partitions=-1) == 0
        assert client.offset("four", 3) == 0
        with pytest.raises(AssertionError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            client.offset("four", 4)
