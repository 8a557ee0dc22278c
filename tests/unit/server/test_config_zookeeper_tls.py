"""How the connection to ZooKeeper is protected: taken over, or refused, and never ignored."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError, UserError
from moldau.cluster.zookeeper.client.tls import ZooKeeperTls
from moldau.server.configuration.settings import BrokerSettings

PEM = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": "/etc/trusted.pem",
}


def load(settings, **environ):
    return BrokerSettings.load("zookeeper.connect=zk:2181\nbroker.id=1\n", settings, environ)


def tls(**settings):
    named = {f"zookeeper.ssl.{key.replace('_', '.')}": one for key, one in settings.items()}
    return load({**PEM, **named}).quorum.zookeeper_tls


def test_a_connection_is_plain_unless_tls_is_asked_for():
    assert load({}).quorum.zookeeper_tls is None


def test_pem_files_are_taken_over():
    assert tls() == ZooKeeperTls("/etc/trusted.pem")
    found = tls(
        truststore_location="/etc/trusted",
        truststore_type="PEM",
        keystore_location="/etc/own",
        keystore_type="pem",
        keystore_password="secret",
        endpoint_identification_algorithm="",
    )
    assert found == ZooKeeperTls("/etc/trusted", "/etc/own", "secret", checks_host_name=False)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "oldest", "newest"),
    [
        ({}, "TLSv1_2", "MAXIMUM_SUPPORTED"),
        ({"protocol": "TLS"}, "TLSv1_2", "MAXIMUM_SUPPORTED"),
        ({"protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"protocol": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        (
            {"protocol": "TLS", "enabled_protocols": "TLSv1.3,TLSv1.2"},
            "TLSv1_2",
            "TLSv1_3",
        ),
    ],
)
def test_versions(settings, oldest, newest):
    found = tls(**settings)
    assert (found.oldest, found.newest) == (oldest, newest)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true: nodes in ZooKeeper cannot be"),
        ({**PEM, "zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable=true: "),
        ({**PEM, "zookeeper.ssl.ocsp.enable": "true"}, "zookeeper.ssl.ocsp.enable=true: "),
        ({**PEM, "zookeeper.ssl.cipher.suites": "A,B"}, "zookeeper.ssl.cipher.suites=A,B: "),
        (
            {**PEM, "zookeeper.ssl.truststore.location": "/etc/trusted.jks"},
            "zookeeper.ssl.truststore.location=/etc/trusted.jks: only files in PEM form",
        ),
        (
            {**PEM, "zookeeper.ssl.truststore.type": "JKS"},
            "zookeeper.ssl.truststore.location=/etc/trusted.pem: only files in PEM form",
        ),
        (
            {**PEM, "zookeeper.ssl.keystore.location": "/etc/own.p12"},
            "zookeeper.ssl.keystore.location=/etc/own.p12: only files in PEM form",
        ),
        (
            {**PEM, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNIO: ",
        ),
        ({**PEM, "zookeeper.ssl.protocol": "SSLv3"}, "zookeeper.ssl.protocol=SSLv3: must be of"),
        (
            {**PEM, "zookeeper.ssl.enabled.protocols": "TLSv1.1,TLSv1.2"},
            "zookeeper.ssl.enabled.protocols=TLSv1.1: must be of",
        ),
        (
            {**PEM, "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"},
            "zookeeper.ssl.endpoint.identification.algorithm=LDAPS: must be HTTPS",
        ),
        (
            {"zookeeper.ssl.truststore.location": "/etc/trusted.pem"},
            "zookeeper.ssl.truststore.location: has no effect without zookeeper.ssl.client.enable",
        ),
        (
            {"zookeeper.ssl.keystore.location": "/etc/own.pem"},
            "zookeeper.ssl.keystore.location: has no effect without zookeeper.ssl.client.enable",
        ),
    ],
)
def test_what_is_not_served_is_refused_with_one_line(settings, said):
    with pytest.raises(ConfigError) as refused:
        load(settings)
    line = str(refused.value)
    assert line.startswith(said), line
    assert "\n" not in line


def test_a_broker_without_zookeeper_does_not_mind():
    settings = {**PEM, "zookeeper.set.acl": "true"}
    assert BrokerSettings.load("node.id=1\n", settings, {}).quorum.zookeeper_tls is None


def test_a_login_configuration_of_java_is_not_passed_over_in_silence():
    options = "-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf"
    (said,) = [line for line in load({}, KAFKA_OPTS=options).warnings if "KAFKA_OPTS" in line]
    assert said == (
        "KAFKA_OPTS names a login configuration of Java, which is not read: brokers do not"
        " authenticate themselves to ZooKeeper with SASL"
    )
    assert not any("KAFKA_OPTS" in line for line in load({}, KAFKA_OPTS="-Xmx1g").warnings)


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_file_that_is_missing_or_no_pem_is_named(tmp_path, store):
    path = tmp_path / "file.pem"
    with pytest.raises(UserError, match=rf"zookeeper\.ssl\.{store}\.location=.*No such file"):
        ZooKeeperTls(**{store: str(path)}).make_context()
    path.write_bytes(b"\xfe\xed\xfe\xed, as a keystore of Java begins")
    with pytest.raises(UserError, match=rf"zookeeper\.ssl\.{store}\.location=.*not in PEM form"):
        ZooKeeperTls(**{store: str(path)}).make_context()
