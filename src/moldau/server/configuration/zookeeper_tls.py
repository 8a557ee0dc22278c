"""Reads how a broker protects its connection to ZooKeeper, and refuses what it cannot do.

To ignore such a setting would send a cluster's metadata unprotected, and its owner would not know.
Files are taken in PEM form only: Python reads no keystores of Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from moldau.base.errors import ConfigError
from moldau.cluster.zookeeper.client.tls import ZooKeeperTls
from moldau.server.configuration.values import BrokerValues

ENABLE: Final = "zookeeper.ssl.client.enable"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_VERSIONS: Final[Mapping[str, str]] = {
    "TLSv1.2": "TLSv1_2",
    "TLSv1.3": "TLSv1_3",
}
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "zookeeper.set.acl": "nodes in ZooKeeper cannot be protected by ACLs: there is no SASL to it",
    "zookeeper.ssl.crl.enable": "lists of revoked certificates are not looked at",
    "zookeeper.ssl.ocsp.enable": "revoked certificates are not asked for",
}
"""What is refused if it is true, and why."""


def zookeeper_tls(values: BrokerValues) -> ZooKeeperTls | None:
    """Return how the connection is encrypted; None for not at all, ConfigError for the rest."""
    for name, reason in _UNSUPPORTED.items():
        if values.value(name):
            raise ConfigError(f"{name}=true: {reason}")
    if not values.value(ENABLE):
        _refuse_unused(values)
        return None
    if (suites := values.text("zookeeper.ssl.cipher.suites")) is not None:
        raise ConfigError(
            f"zookeeper.ssl.cipher.suites={suites}: cipher suites cannot be chosen; leave it out"
        )
    socket_class = values.text("zookeeper.clientCnxnSocket")
    if socket_class not in (None, _NETTY):
        raise ConfigError(f"zookeeper.clientCnxnSocket={socket_class}: {ENABLE} needs {_NETTY}")
    oldest, newest = _versions(values)
    return ZooKeeperTls(
        _store(values, "truststore"),
        _store(values, "keystore"),
        values.text("zookeeper.ssl.keystore.password"),
        _checks_host_name(values),
        oldest,
        newest,
    )


def unread_login(environ: Mapping[str, str]) -> Iterator[str]:
    """Say that brokers do not log in to ZooKeeper, where somebody may think that they do."""
    if "java.security.auth.login.config" in environ.get("KAFKA_OPTS", ""):
        yield (
            "KAFKA_OPTS names a login configuration of Java, which is not read: brokers do not"
            " authenticate themselves to ZooKeeper with SASL"
        )


def _refuse_unused(values: BrokerValues) -> None:
    for name in ("zookeeper.ssl.keystore.location", "zookeeper.ssl.truststore.location"):
        if values.is_set(name):
            raise ConfigError(
                f"{name}: has no effect without {ENABLE}=true, the connection to ZooKeeper would"
                " not be encrypted"
            )


def _store(values: BrokerValues, store: str) -> str | None:
    name = f"zookeeper.ssl.{store}.location"
    path = values.text(name)
    kind = values.text(f"zookeeper.ssl.{store}.type")
    if (
        path is not None
        and (kind or "").upper() != "PEM"
        and not (kind is None and path.endswith(".pem"))
    ):
        raise ConfigError(
            f"{name}={path}: only files in PEM form can be read; zookeeper.ssl.{store}.type=PEM"
        )
    return path


def _checks_host_name(values: BrokerValues) -> bool:
    name = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = (values.text(name) or "").upper()
    if algorithm not in ("", "HTTPS"):
        raise ConfigError(f"{name}={algorithm}: must be HTTPS, or empty to check no host name")
    return bool(algorithm)


def _versions(values: BrokerValues) -> tuple[str, str]:
    enabled = values.entries("zookeeper.ssl.enabled.protocols")
    protocol = values.text("zookeeper.ssl.protocol")
    name = "zookeeper.ssl.enabled.protocols" if enabled else "zookeeper.ssl.protocol"
    chosen = enabled or (protocol,) if protocol != "TLS" else enabled
    found = []
    for one in filter(None, chosen):
        if one not in _VERSIONS:
            raise ConfigError(f"{name}={one}: must be of {', '.join(_VERSIONS)}")
        found.append(_VERSIONS[one])
    if not found:
        return "TLSv1_2", "MAXIMUM_SUPPORTED"
    return min(found), max(found)
