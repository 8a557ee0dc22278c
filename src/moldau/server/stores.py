"""The metadata stores that a broker can be given, made from its settings.

Whoever puts a broker together chooses one (`Ports.make_store`). The broker's parts know only the
ports of `cluster/store.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from moldau.base.errors import UserError
from moldau.base.ids import BrokerId
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.snapshotting import SnapshotPace
from moldau.cluster.zookeeper.client.connect_string import ConnectString
from moldau.cluster.zookeeper.client.port import ZooKeeper
from moldau.cluster.zookeeper.client.tls import ZooKeeperTls
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import BrokerStore, Ports

SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
SNAPSHOT_INTERVAL: Final = "metadata.log.max.snapshot.interval.ms"
RETENTION_BYTES: Final = "metadata.max.retention.bytes"
RETENTION_MS: Final = "metadata.max.retention.ms"


def node_store(settings: BrokerSettings, ports: Ports) -> BrokerStore:
    """Make the store that a node's part in its cluster asks for."""
    if settings.quorum.kind is NodeKind.ELECTED:
        return zookeeper_store(settings, ports)
    return quorum_store(settings, ports)


def quorum_store(settings: BrokerSettings, ports: Ports) -> BrokerStore:
    """Make the store of a node in a quorum, which may be this node alone."""
    # Imported here: other brokers do not need it.
    from moldau.server.quorum.quorum_store import make_quorum_store  # noqa: PLC0415

    return make_quorum_store(settings, ports, metadata_pace(settings), metadata_retention(settings))


def node_zookeeper(settings: BrokerSettings, ports: Ports) -> ZooKeeper:
    """Make the way to the ZooKeeper that a broker's settings name."""
    connect, values = settings.quorum.zookeeper, settings.values
    assert connect is not None  # that makes it this kind of node
    open_zookeeper = ports.open_zookeeper or partial(
        kazoo_zookeeper, tls=settings.quorum.zookeeper_tls
    )
    timeout_ms = values.value("zookeeper.connection.timeout.ms")
    session_ms = values.integer("zookeeper.session.timeout.ms")
    return open_zookeeper(
        connect, session_ms / 1000, None if timeout_ms is None else int(str(timeout_ms)) / 1000
    )


def zookeeper_store(settings: BrokerSettings, ports: Ports) -> BrokerStore:
    """Make the store of a broker whose cluster keeps its metadata in ZooKeeper."""
    # Imported here: other brokers do not need it.
    from moldau.cluster.zookeeper.store import ZooKeeperStore  # noqa: PLC0415

    return ZooKeeperStore(
        node_zookeeper(settings, ports),
        ports.files,
        settings.log_dirs,
        BrokerId(settings.node_id),
        ports.clock,
        ports.random,
        min_insync_replicas=settings.values.integer("min.insync.replicas"),
    )


def kazoo_zookeeper(
    connect: ConnectString,
    session_timeout_s: float,
    connection_timeout_s: float | None,
    tls: ZooKeeperTls | None = None,
) -> ZooKeeper:
    """Make the way to a real ensemble; UserError without the library for it."""
    try:
        # Imported here: only brokers on ZooKeeper need it, and it may not be installed.
        from moldau.cluster.zookeeper.client.kazoo_session import (  # noqa: PLC0415
            KazooZooKeeper,
            ZooKeeperSettings,
        )
    except ImportError as error:
        raise UserError("zookeeper.connect needs kazoo: pip install 'moldau[zookeeper]'") from error
    return KazooZooKeeper(
        ZooKeeperSettings(
            connect,
            session_timeout_s,
            connection_timeout_s,
            tls=None if tls is None else tls.make_context(),
        )
    )


def metadata_pace(settings: BrokerSettings) -> SnapshotPace:
    """Read when a snapshot of the metadata is due."""
    values = settings.values
    return SnapshotPace(values.integer(SNAPSHOT_BYTES), values.integer(SNAPSHOT_INTERVAL) / 1000)


def metadata_retention(settings: BrokerSettings) -> MetadataRetention:
    """Read how much of the metadata's history is kept."""
    values = settings.values
    return MetadataRetention(values.integer(RETENTION_BYTES), values.integer(RETENTION_MS))
