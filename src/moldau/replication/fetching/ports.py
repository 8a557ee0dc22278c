"""What followers need of the rest of the broker, and how they are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from moldau.base.errors import StorageError
from moldau.base.ids import BrokerId
from moldau.base.network import Address
from moldau.engine.ports import ClientPorts
from moldau.replication.throttle import ReplicationThrottle
from moldau.storage.flushing import Flusher


class Leaders(Protocol):
    """Where brokers can be reached by other brokers."""

    def address(self, broker_id: BrokerId) -> Address | None:
        """Return a broker's address on the listener of brokers; None while it is not known."""
        ...


class FetchSettings(NamedTuple):
    """How followers fetch; each is named like its config."""

    num_replica_fetchers: int = 1
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    replica_fetch_max_bytes: int = 1024 * 1024
    """Of one partition in one answer."""
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000


class FollowerContext(NamedTuple):
    """What every fetcher of a broker is given."""

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration, which leaders compare (KIP-903)."""
    leaders: Leaders
    ports: ClientPorts
    settings: FetchSettings
    flusher: Flusher
    """Cuts the files of replicas without blocking the loop."""
    throttle: ReplicationThrottle
    storage_failed: Callable[[StorageError], None]
    """Told of a disk that fails under a replica."""
