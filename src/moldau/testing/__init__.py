"""Real brokers inside the test process, for tests of programs that use Kafka.

    from moldau.testing import TestBroker

    with TestBroker(topics={"orders": 3}) as broker:
        producer = Producer(broker.bootstrap_servers)

`AsyncTestBroker` is for asyncio, and `TestCluster` runs several brokers that replicate.
`virtual_time` runs a test with one broker or a cluster on a simulated network, where minutes take
milliseconds. `moldau.testing.plugin` has pytest fixtures. Names are imported on first use, because
pytest imports this package in every project that has Moldau installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.testing.broker import AsyncTestBroker, TestBroker
    from moldau.testing.cluster import TestCluster
    from moldau.testing.virtual import VirtualWorld, virtual_time
    from moldau.testing.virtual_cluster import VirtualCluster

__all__ = [
    "AsyncTestBroker",
    "TestBroker",
    "TestCluster",
    "VirtualCluster",
    "VirtualWorld",
    "virtual_time",
]

_HOMES = {
    "AsyncTestBroker": "broker",
    "TestBroker": "broker",
    "TestCluster": "cluster",
    "VirtualCluster": "virtual_cluster",
    "VirtualWorld": "virtual",
    "virtual_time": "virtual",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
