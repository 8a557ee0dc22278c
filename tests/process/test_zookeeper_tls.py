"""Brokers whose connection to ZooKeeper is encrypted, with certificates on both sides."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.ports import free_port
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from process.raw_client import RawClient, batch_of
from process.serving import Serving
from process.zookeeper_clusters import SHORT_ZOOKEEPER_SESSION, ZooKeeperCluster

pytestmark = pytest.mark.long

PASSWORD = "open-sesame"
NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_certificate(folder: Path, name: str, *options: str) -> Path:
    """Make a private key and a certificate that names this host; return the file of both."""
    key, certificate = f"{name}-key.pem", f"{name}-certificate.pem"
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", key, "-out", certificate, *options,
    )  # fmt: skip
    both = folder / f"{name}.pem"
    both.write_text((folder / key).read_text() + (folder / certificate).read_text())
    return both


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the keys of a server, a broker, and somebody else."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    made = tmp_path_factory.mktemp("certificates")
    make_certificate(made, "server", "-nodes")
    make_certificate(made, "broker", "-passout", f"pass:{PASSWORD}")
    make_certificate(made, "stranger", "-nodes")
    return made


@pytest.fixture(scope="module")
def secure(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperNode]:
    """Return a ZooKeeper with a second port, which wants certificates."""
    require_zookeeper()
    settings = {
        "secureClientPort": str(free_port()),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": NETTY,
        "ssl.keyStore.location": str(folder / "server.pem"),
        "ssl.trustStore.location": str(folder / "broker-certificate.pem"),
    }
    with ZooKeeperNode(tmp_path_factory.mktemp("zookeeper"), settings) as running:
        yield running


def tls_settings(node: ZooKeeperNode, folder: Path, **others: str) -> dict[str, str]:
    """Return the settings of a broker; `others` are added, with _ for the dots of a name."""
    return {
        **SHORT_ZOOKEEPER_SESSION,
        "zookeeper.connect": f"127.0.0.1:{node.settings['secureClientPort']}/tls",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(folder / "broker.pem"),
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.truststore.location": str(folder / "server-certificate.pem"),
        "zookeeper.ssl.truststore.type": "PEM",
        **{f"zookeeper.{name.replace('_', '.')}": value for name, value in others.items()},
    }


def test_a_cluster_lives_on_an_encrypted_connection(tmp_path, secure, folder):
    settings = tls_settings(secure, folder)
    with ZooKeeperCluster(tmp_path, secure, "/tls", size=2, settings=settings) as cluster:
        cluster.create_topic("many", partitions=500, via=0)
        cluster.create_topic("events", [(1, 0)], via=0)
        with RawClient(cluster.address(1)) as client:
            assert client.produce("events", batch_of([b"value"])).error_code == 0
        first, epoch = cluster.controller(), cluster.controller_epoch
        cluster.kill(first)
        cluster.wait_for_controller(after=epoch)
        cluster.start(first)
        cluster.wait_in_sync("many")
        assert all(PASSWORD not in cluster.output(broker_id) for broker_id in cluster.ids)


def last_line(tmp_path: Path, settings: dict[str, str]) -> str:
    """Start a broker that must not come up; return what it says at last."""
    file = tmp_path / "server.properties"
    own = {"broker.id": "7", "log.dirs": tmp_path / "data", "listeners": "PLAINTEXT://127.0.0.1:0"}
    file.write_text("".join(f"{key}={one}\n" for key, one in {**own, **settings}.items()))
    serving = Serving(tmp_path, "--config", str(file)).launch()
    status, said = serving.wait(), serving.errors
    assert status in (1, 2), said
    assert "Traceback" not in said
    assert PASSWORD not in said
    return said.splitlines()[-1]


def test_what_cannot_be_trusted_is_not_connected_to(tmp_path, secure, folder):
    stranger = str(folder / "stranger-certificate.pem")
    line = last_line(tmp_path, tls_settings(secure, folder, ssl_truststore_location=stranger))
    assert "its certificate is not trusted: self-signed certificate" in line
    line = last_line(
        tmp_path, tls_settings(secure, folder, ssl_keystore_location=str(folder / "stranger.pem"))
    )
    assert "no session with ZooKeeper at 127.0.0.1:" in line
    line = last_line(tmp_path, tls_settings(secure, folder, ssl_keystore_password="wrong"))
    assert "zookeeper.ssl.keystore.location=" in line
    assert "not for this password" in line
    plain = {**tls_settings(secure, folder), "zookeeper.connect": secure.address}
    assert "no encrypted connection" in last_line(tmp_path, plain)
