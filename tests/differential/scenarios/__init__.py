"""What the two brokers are asked, one module a family of APIs."""

from __future__ import annotations

from collections.abc import Callable

from differential.peer import Peer

from . import (
    configs,
    coordinators,
    discovery,
    features,
    fetch,
    group_offsets,
    groups,
    offsets,
    old_formats,
    produce,
    quotas,
    replicas,
    security,
    topics,
    transactions,
)

Scenario = Callable[[Peer], None]

SCENARIOS: dict[str, Scenario] = {
    f"{module.__name__.rpartition('.')[2]}-{scenario.__name__}": scenario
    for module in (
        produce,
        fetch,
        offsets,
        topics,
        configs,
        discovery,
        coordinators,
        groups,
        group_offsets,
        transactions,
        security,
        replicas,
        quotas,
        features,
        old_formats,
    )
    for scenario in module.SCENARIOS
}
