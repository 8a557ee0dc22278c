"""The id of a broker on ZooKeeper whose settings have none, as with Kafka's default `broker.id=-1`.

Its log directories tell it. New ones get an id that ZooKeeper draws: the version of
`/brokers/seqid`, which each draw raises, above `reserved.broker.max.id`. It is in `meta.properties`
from then on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.base.errors import ConfigError, UserError
from moldau.base.files import Files
from moldau.cluster.store import StoreFailed
from moldau.cluster.zookeeper.client.port import (
    UnknownOutcome,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.roots import create_roots
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.values import BrokerValues
from moldau.storage.checkpoints import read_meta_properties

IS_ENABLED: Final = "broker.id.generation.enable"
RESERVED: Final = "reserved.broker.max.id"


async def with_broker_id(
    settings: BrokerSettings, files: Files, zookeeper: ZooKeeper
) -> BrokerSettings:
    """Return the settings with the id of the log directories, or with one that is drawn."""
    broker_id = _stored_id(settings, files)
    if broker_id is None:
        if not settings.values.value(IS_ENABLED):
            raise ConfigError(f"broker.id is not set, and {IS_ENABLED} is false")
        broker_id = settings.values.integer(RESERVED) + await _draw(zookeeper)
    found = {**settings.values.static, "broker.id": str(broker_id), "node.id": str(broker_id)}
    return replace(settings, node_id=broker_id, values=BrokerValues(found))


def _stored_id(settings: BrokerSettings, files: Files) -> int | None:
    """Return the id in the log directories. If they differ, their check tells."""
    for path in settings.log_dirs:
        properties = read_meta_properties(files, path)
        if properties is not None and properties.node_id is not None:
            return properties.node_id
    return None


async def _draw(zookeeper: ZooKeeper) -> int:
    try:
        session = await zookeeper.open_session(lambda _: None)
        try:
            await create_roots(session)
            return await _raised_sequence(session)
        finally:
            await session.close()
    except (ZooKeeperError, StoreFailed) as error:
        raise UserError(f"cannot draw a broker.id in ZooKeeper: {error}") from error


async def _raised_sequence(session: ZooKeeperSession) -> int:
    while True:
        try:
            return (await session.set_data(paths.BROKER_SEQUENCE, b"")).version
        except UnknownOutcome:
            continue  # a number may be left out
