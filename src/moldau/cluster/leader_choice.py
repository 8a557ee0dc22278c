"""Who leads a partition next: Kafka's order of candidates. Pure.

A clean leader comes from the ISR, or while that is empty from the eligible leader replicas
(KIP-966). Both hold every committed record. Where there is neither, the last known leader is asked
to lead again, and only then, if the topic allows it, any replica that is online. Those two may lack
committed records: the partition is then marked as recovering.

Two rules differ from Kafka's. A last known leader that is fenced is never elected (KAFKA-19522, as
in newer versions of Kafka). And the only replica of a partition may always lead: what it has is all
there is, and there is nobody to recover from.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from moldau.base.ids import BrokerId
from moldau.cluster.configs import (
    eligible_leaders_kept,
    min_insync_replicas,
    unclean_elections_allowed,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    Broker,
    Partition,
)


class Election(Enum):
    """Which candidates an election looks at."""

    ONLINE = auto()
    """Keep the partition online without losing committed records."""
    PREFERRED = auto()
    """The same, but prefer the first replica to the current leader."""
    UNCLEAN = auto()
    """Keep the partition online, with a replica that may lack committed records if need be."""


class LeaderChoice(NamedTuple):
    """Whom an election has chosen; NO_LEADER if there is no candidate."""

    leader: BrokerId
    is_unclean: bool = False


class ElectionRules:
    """What elections depend on beside the partition itself.

    A decision that changes a broker elects leaders for the cluster as it will be: `with_broker`
    and `without_broker` give the rules for that.
    """

    __slots__ = (
        "_elections",
        "_image",
        "_minimums",
        "_unclean_by_default",
        "brokers",
        "keeps_eligible_leaders",
    )

    def __init__(
        self,
        image: MetadataImage,
        *,
        unclean_by_default: bool = False,
        brokers: Mapping[BrokerId, Broker] | None = None,
    ) -> None:
        self._image = image
        self._unclean_by_default = unclean_by_default
        self.brokers = image.brokers if brokers is None else brokers
        self.keeps_eligible_leaders = eligible_leaders_kept(image)
        # What the configs of a topic say, since one decision asks for thousands of partitions.
        self._minimums: dict[str, int] = {}
        self._elections: dict[str, Election] = {}

    def with_broker(self, broker: Broker) -> ElectionRules:
        """Return the rules for a cluster in which this broker is as given."""
        return self._with_brokers({**self.brokers, broker.id: broker})

    def without_broker(self, broker_id: BrokerId) -> ElectionRules:
        """Return the rules for a cluster without this broker."""
        others = {key: broker for key, broker in self.brokers.items() if key != broker_id}
        return self._with_brokers(others)

    def _with_brokers(self, brokers: Mapping[BrokerId, Broker]) -> ElectionRules:
        return ElectionRules(
            self._image, unclean_by_default=self._unclean_by_default, brokers=brokers
        )

    def may_lead(self, partition: Partition, broker_id: BrokerId) -> bool:
        """Tell whether a broker is active and the directory of its replica online."""
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.active:
            return False
        return is_directory_online(broker, partition)

    def minimum(self, topic: str, replica_count: int) -> int:
        """Return how many replicas must be in sync; never more than there are."""
        minimum = self._minimums.get(topic)
        if minimum is None:
            minimum = self._minimums[topic] = min_insync_replicas(self._image, topic)
        return min(minimum, replica_count)

    def usual_election(self, topic: str) -> Election:
        """Return the kind of election that a topic's configs ask for."""
        election = self._elections.get(topic)
        if election is None:
            default = self._unclean_by_default
            allowed = unclean_elections_allowed(self._image, topic, default=default)
            election = Election.UNCLEAN if allowed else Election.ONLINE
            self._elections[topic] = election
        return election


def is_directory_online(broker: Broker, partition: Partition) -> bool:
    """Tell whether a broker's replica lies in a directory that is online, as far as is known."""
    directory = partition.directory_of(broker.id)
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return True
    if directory == LOST_DIRECTORY:
        return False
    return not broker.log_directories or directory in broker.log_directories


def choose_leader(
    rules: ElectionRules,
    partition: Partition,
    replicas: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    eligible: tuple[BrokerId, ...],
    election: Election,
) -> LeaderChoice:
    """Choose the leader of a partition that is to have these replicas and this ISR."""
    clean = isr or eligible or (replicas if len(replicas) == 1 else ())
    order = (partition.leader, *replicas)
    if election is Election.PREFERRED:
        order = (replicas[0], *order)
    for candidate in order:
        if candidate in clean and rules.may_lead(partition, candidate):
            return LeaderChoice(candidate)
    if not isr and not eligible and rules.keeps_eligible_leaders:
        last = partition.last_known_leaders
        if len(last) == 1 and last[0] in replicas and rules.may_lead(partition, last[0]):
            return LeaderChoice(last[0], is_unclean=True)
    if election is Election.UNCLEAN:
        for candidate in replicas:
            if rules.may_lead(partition, candidate):
                return LeaderChoice(candidate, is_unclean=True)
    return LeaderChoice(NO_LEADER)
