"""The image: its files exist, and its settings are those of the image of Apache Kafka."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml

from moldau.base.network import Address
from moldau.cli import container
from moldau.cli.container import container_settings
from moldau.server.configuration.quorum import NodeKind

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "packaging" / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "packaging" / "compose.yaml").read_text())
NO_FILE = Path("/no/such/file")


def endpoints(settings):
    return [
        (one.name, one.host, one.port, one.advertised_host, one.advertised_port)
        for one in settings.endpoints
    ]


def test_every_file_that_is_copied_exists_and_is_let_into_the_context():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    names = " ".join(copied).split()
    assert len(names) == 5
    ignore = (ROOT / "packaging" / "Dockerfile.dockerignore").read_text()
    for name in names:
        assert (ROOT / name).exists()
        assert f"\n!{name}\n" in ignore


def test_the_image_runs_a_module_as_a_user_without_rights():
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    words = json.loads(command)
    assert words == ["python", "-m", container.__name__]
    assert importlib.util.find_spec(words[-1]) is not None
    assert DOCKERFILE.index("USER 1000") < DOCKERFILE.index(command)


def test_what_the_image_declares_is_what_its_broker_uses():
    settings = container_settings(NO_FILE, {})
    assert f"VOLUME {settings.log_dirs[0]}\n" in DOCKERFILE
    assert f"127.0.0.1:{settings.metrics_listen.port}/readyz" in DOCKERFILE
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    ports = {settings.metrics_listen.port, settings.endpoints[0].port}
    assert ports < set(map(int, exposed.split()))


def test_without_settings_clients_on_the_same_machine_reach_the_broker():
    settings = container_settings(NO_FILE, {"PATH": "/bin", "KAFKA_PORT": "tcp://10.0.0.1:9092"})
    assert endpoints(settings) == [("PLAINTEXT", "", 9092, "localhost", 9092)]
    assert settings.log_dirs == ("/var/lib/moldau",)
    assert settings.quorum.kind is NodeKind.ALONE


@pytest.mark.parametrize("has_file", [False, True])
def test_what_is_told_of_listeners_replaces_all_of_them(tmp_path, has_file):
    file = tmp_path / "server.properties"
    if has_file:
        file.write_text("num.partitions=5\nlog.dirs=/elsewhere\n")
    environ = {"KAFKA_LISTENERS": "PLAINTEXT://b:9192", "KAFKA_NUM_PARTITIONS": "7"}
    settings = container_settings(file, environ)
    assert endpoints(settings) == [("PLAINTEXT", "b", 9192, "b", 9192)]
    assert settings.num_partitions == 7
    assert settings.log_dirs == (("/elsewhere",) if has_file else ("/var/lib/moldau",))


def test_a_mounted_file_says_where_the_broker_listens(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://b:9292\nmoldau.metrics.listen=0.0.0.0:1\n")
    settings = container_settings(file, {})
    assert endpoints(settings) == [("PLAINTEXT", "b", 9292, "b", 9292)]
    assert settings.metrics_listen == Address("0.0.0.0", 1)


def test_names_of_variables_become_keys_as_in_the_image_of_kafka():
    environ = {"KAFKA_LOG_SEGMENT_BYTES": "107370", "KAFKA_NODE_ID": "4"}
    settings = container_settings(NO_FILE, environ)
    assert (settings.node_id, settings.values.integer("log.segment.bytes")) == (4, 107370)


def test_the_brokers_of_the_compose_file_form_one_cluster():
    services = COMPOSE["services"]
    assert len(services) == 3
    assert set(COMPOSE["volumes"]) == set(services)
    for name, service in services.items():
        told = {key: str(value) for key, value in service["environment"].items()}
        settings = container_settings(NO_FILE, told)
        assert not settings.warnings
        assert settings.quorum.kind is NodeKind.MEMBER
        assert f"{settings.node_id}@{name}:9093" in told["KAFKA_CONTROLLER_QUORUM_VOTERS"]
        inside, host = settings.endpoints
        assert inside.advertised_host == name == service["hostname"]
        (published,) = service["ports"]
        assert published == f"127.0.0.1:{host.advertised_port}:{host.port}"
        assert service["volumes"] == [f"{name}:{settings.log_dirs[0]}"]
        context = (ROOT / "packaging" / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]).exists()
