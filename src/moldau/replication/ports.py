"""What the partitions of a broker need of the cluster around them, given once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from moldau.base.ids import BrokerId
from moldau.replication.leader_state import IsrProposal

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

DEFAULT_MAX_LAG_S: Final = 30.0
"""`replica.lag.time.max.ms`, as Kafka has it."""


class LiveBrokers(Protocol):
    """What this broker's image of the metadata says of the others."""

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        """Return the epoch of a broker's registration; None for one that is not registered."""
        ...

    def is_eligible(self, broker_id: BrokerId) -> bool:
        """Tell whether a broker may join an ISR: neither fenced nor shutting down."""
        ...


class IsrChanges(Protocol):
    """The way of a proposal to the controller.

    One request is in flight at a time, with all pending proposals of the broker. It is sent again
    until it is answered, and each answer is handed to `Partition.isr_answer`. A copy of a proposal
    that is sent again must not be handled after a later copy was answered: a leader that was
    refused counts without the new member, whom a late copy would still let in. A connection that
    is closed before the request is sent on the next one is enough for that.
    """

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR, some time after this turn of the loop."""
        ...


@dataclass(slots=True)
class IsrCounts:
    """How often the ISR of a partition has changed; Kafka's IsrShrinks, IsrExpands and failures."""

    shrinks: int = 0
    expands: int = 0
    failures: int = 0

    def changed(self, old_size: int, new_size: int) -> None:
        """Count a change that the controller has committed."""
        if new_size > old_size:
            self.expands += 1
        elif new_size < old_size:
            self.shrinks += 1


class _NobodyElse:
    """The cluster of a broker that is alone: nobody could join, and nothing is proposed."""

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        del broker_id
        return None

    def is_eligible(self, broker_id: BrokerId) -> bool:
        del broker_id
        return False

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Leave the ISR as it is."""


@dataclass(slots=True)
class ReplicationPorts:
    """What all partitions of a broker share."""

    live_brokers: LiveBrokers
    isr_changes: IsrChanges
    max_lag_s: float = DEFAULT_MAX_LAG_S
    counts: IsrCounts = field(default_factory=IsrCounts)


ALONE: Final = ReplicationPorts(_NobodyElse(), _NobodyElse())
"""Of a cluster with one broker."""
