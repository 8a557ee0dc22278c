"""Where the metrics page gets a broker's figures from.

Read in the page's own thread while the event loop goes on: containers are copied in one step
before they are walked.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.observe.prometheus import BrokerFigures, LogFigures
from moldau.server.broker import Broker


def figures_of(broker: Broker) -> BrokerFigures:
    """Return what a scrape asks of this broker."""
    return BrokerFigures(
        requests=broker.parts.metrics,
        connections=lambda: len(broker.connections),
        logs=lambda: _logs(broker),
        topics=broker.parts.traffic.items,
        offline_directories=lambda: sum(one.offline for one in broker.parts.logs.directories),
    )


def _logs(broker: Broker) -> Iterator[LogFigures]:
    for partition in broker.parts.partitions.snapshot():
        log = partition.log
        yield LogFigures(
            *partition.key,
            log.size,
            log.log_start_offset,
            log.log_end_offset,
            len(log.segments),
        )
