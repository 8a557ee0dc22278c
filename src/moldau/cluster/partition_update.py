"""What one partition becomes when a decision touches it. Pure.

Every decision about a partition goes through `change_partition`, in the order of Kafka's
controller: a reassignment that can be completed is completed, the eligible leader replicas are
worked out, a leader is elected if the current one cannot stay, and what differs from the partition
as it is becomes one change.

Eligible leader replicas (KIP-966) are those outside the ISR that hold all committed records. While
fewer replicas are in sync than `min.insync.replicas` asks for, the high watermark stands: a replica
that leaves the ISR then stays eligible, and the ISR may become empty. With enough in sync the high
watermark moves on, and no replica outside is eligible. Without that feature the last member stays
in the ISR.

Kafka raises the leader epoch for an ISR that shrinks as well, at metadata levels below 3.6. That
helped its brokers over a fault of theirs (KAFKA-15021) and is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from moldau.base.ids import BrokerId
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.leader_choice import Election, ElectionRules, choose_leader
from moldau.cluster.model import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    Partition,
    Topic,
)

BrokerIds = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """What a decision wants of a partition; None leaves a part as it is."""

    isr: BrokerIds | None = None
    replicas: BrokerIds | None = None
    adding: BrokerIds | None = None
    removing: BrokerIds | None = None
    recovering: bool | None = None
    election: Election | None = None
    """The kind of election if one is needed; None is what the topic's configs say."""
    not_eligible: frozenset[BrokerId] = frozenset()
    """Brokers that may lack committed records."""
    renews_leader: bool = False
    """The leader was restarted: if it leads again, then in a new epoch."""
    directory: tuple[BrokerId, bytes] | None = None
    """The log directory in which a broker's replica lies (KIP-858)."""


class _Assignment(NamedTuple):
    replicas: BrokerIds
    adding: BrokerIds
    removing: BrokerIds
    isr: BrokerIds


def change_partition(
    rules: ElectionRules, topic: Topic, partition: Partition, target: PartitionTarget
) -> PartitionChanged | None:
    """Return what changes, the outcome of an election included; None if nothing does."""
    located = partition if target.directory is None else _located(partition, *target.directory)
    assignment = _completed(
        _Assignment(
            _given(target.replicas, partition.replicas),
            _given(target.adding, partition.adding_replicas),
            _given(target.removing, partition.removing_replicas),
            _given(target.isr, partition.isr),
        )
    )
    replicas, isr = assignment.replicas, assignment.isr
    eligible = _eligible_leaders(rules, topic, partition, assignment, target.not_eligible)
    election = target.election or rules.usual_election(topic.name)
    choice = choose_leader(rules, located, replicas, isr, eligible, election)
    leader, recovering = choice.leader, _given(target.recovering, partition.recovering)
    if choice.is_unclean:
        isr, eligible, recovering = (leader,), (), True
    elif leader not in (NO_LEADER, *isr):
        isr = (leader,)
        eligible = tuple(other for other in eligible if other != leader)
        if rules.minimum(topic.name, len(replicas)) <= 1:
            eligible = ()
    if replicas == (leader,):
        # With no other replica there is nobody to recover from: what it has is what there is.
        recovering = False
    if not isr and not rules.keeps_eligible_leaders:
        isr = partition.isr
    is_named = leader != partition.leader or not set(partition.replicas) <= set(replicas)
    is_named = is_named or (target.renews_leader and leader != NO_LEADER)
    last_known = partition.last_known_leaders
    if is_named and leader != NO_LEADER:
        last_known = ()
    elif leader == NO_LEADER != partition.leader and rules.keeps_eligible_leaders:
        last_known = last_known or (partition.leader,)
    wanted: dict[str, Any] = {
        "isr": isr,
        "replicas": replicas,
        "adding_replicas": assignment.adding,
        "removing_replicas": assignment.removing,
        "eligible_leaders": eligible,
        "last_known_leaders": last_known,
        "recovering": recovering,
        "directories": _directories(rules, located, replicas),
    }
    changed = {name: value for name, value in wanted.items() if value != getattr(partition, name)}
    if not changed and not is_named:
        return None
    named = leader if is_named else None
    return PartitionChanged(topic.id, partition.index, leader=named, **changed)


def _given(wanted: Any, current: Any) -> Any:
    return current if wanted is None else wanted


def _completed(planned: _Assignment) -> _Assignment:
    """Return the assignment after the end of a reassignment, if it can end now.

    It can if all that are added are in sync, and somebody stays. One that lowers the number of
    replicas waits for all that stay: ending it earlier would only make the ISR smaller.
    """
    if not planned.adding and not planned.removing:
        return planned
    isr = tuple(one for one in planned.isr if one not in planned.removing)
    replicas = tuple(one for one in planned.replicas if one not in planned.removing)
    if not isr or not replicas or not set(planned.adding) <= set(isr):
        return planned
    if len(planned.adding) < len(planned.removing) and not set(replicas) <= set(isr):
        return planned
    return _Assignment(replicas, (), (), isr)


def _eligible_leaders(
    rules: ElectionRules,
    topic: Topic,
    partition: Partition,
    assignment: _Assignment,
    not_eligible: frozenset[BrokerId],
) -> BrokerIds:
    isr, replicas = assignment.isr, assignment.replicas
    if not rules.keeps_eligible_leaders or len(isr) >= rules.minimum(topic.name, len(replicas)):
        return ()
    known = dict.fromkeys((*partition.eligible_leaders, *partition.isr))
    excluded = not_eligible.union(isr)
    return tuple(one for one in known if one in replicas and one not in excluded)


def _located(partition: Partition, broker_id: BrokerId, directory: bytes) -> Partition:
    """Return a partition with one replica in another directory, for an election to look at."""
    directories = tuple(
        directory if one == broker_id else partition.directory_of(one) for one in partition.replicas
    )
    return replace(partition, directories=directories)


def _directories(
    rules: ElectionRules, partition: Partition, replicas: BrokerIds
) -> tuple[bytes, ...]:
    """Return where each replica lies; a new one as far as anybody but its broker can know."""
    if replicas == partition.replicas:
        return partition.directories
    known = dict.fromkeys(partition.replicas, MIGRATING_DIRECTORY)
    known.update(zip(partition.replicas, partition.directories, strict=False))
    return tuple(known.get(one) or _default_directory(rules, one) for one in replicas)


def _default_directory(rules: ElectionRules, broker_id: BrokerId) -> bytes:
    broker = rules.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory
