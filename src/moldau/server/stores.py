"""The metadata stores that a broker can be given, made from its settings.

Whoever puts a broker together chooses one (`Ports.make_store`). The broker's parts know only the
ports of `cluster/store.py`.
"""

from __future__ import annotations

from moldau.base.ids import BrokerId
from moldau.cluster.embedded import EmbeddedStore
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports


def embedded_store(settings: BrokerSettings, ports: Ports) -> EmbeddedStore:
    """Make the store of a broker that stands alone, in its own log directories."""
    return EmbeddedStore(
        ports.files,
        settings.log_dirs,
        BrokerId(settings.node_id),
        ports.clock,
        ports.random,
        metadata_directory=settings.metadata_log_dir,
        executor=ports.executor,
        min_insync_replicas=settings.values.integer("min.insync.replicas"),
    )
