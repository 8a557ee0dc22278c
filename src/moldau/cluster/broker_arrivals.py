"""Decisions about brokers that come and go with their sessions, as with ZooKeeper. Pure.

There a broker is registered while it has a session, and is not fenced. When the session ends, the
broker leaves every ISR and is unregistered. The same id with a larger epoch is a broker that was
restarted: its old life has left, and another one has come. By the rules of `brokers`, a life that
ended stays eligible to lead where it has all committed records, and the last one on record stays.

Several brokers may come and go at once. A decision does not see its own changes, so each partition
is decided on once, for the cluster after all of them: nobody is elected who has just left as well,
and of two that were restarted the complete one is preferred. To decide for one broker after the
other would also write the node of a partition several times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from moldau.base.ids import BrokerId
from moldau.cluster.brokers import departures
from moldau.cluster.changes import BrokerRegistered, BrokerUnregistered
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import ElectionRules
from moldau.cluster.model import Broker, Partition
from moldau.cluster.partition_update import PartitionTarget
from moldau.cluster.steps import Step, change_partitions


def brokers_changed(
    image: MetadataImage,
    live: Mapping[BrokerId, Broker],
    may_lack_records: Collection[BrokerId] = (),
    *,
    unclean_by_default: bool = False,
) -> Iterator[Step]:
    """Bring the image from the brokers that it has to those that are live.

    `may_lack_records` are live brokers whose disk may have lost committed records. It counts when
    they come, and no more when the image has the same life of them.

    An ISR may name a broker that the image does not have: it left, or was restarted, while there
    was no controller. That life is over as well. Partitions without a leader get one if they can.
    """
    brokers = dict(_brokers_after(image, live))
    staying = frozenset(
        one for one, old in image.brokers.items() if one in live and brokers[one].epoch == old.epoch
    )
    for old in image.brokers.values():
        if old.id not in staying:
            yield BrokerUnregistered(old.id, old.epoch)
    for new in brokers.values():
        if image.brokers.get(new.id) != new:
            yield BrokerRegistered(new)
    rules = ElectionRules(image, unclean_by_default=unclean_by_default, brokers=brokers)
    lacking = frozenset(may_lack_records).intersection(brokers) - staying

    def target(partition: Partition) -> PartitionTarget | None:
        named = {partition.leader, *partition.isr, *partition.eligible_leaders}
        if named <= staying:
            return None
        wanted = departures(rules, partition, frozenset(named - staying), lacking)
        if wanted is None and partition.leader not in staying:
            return PartitionTarget()
        return wanted

    yield from change_partitions(image, rules, target)


def _brokers_after(
    image: MetadataImage, live: Mapping[BrokerId, Broker]
) -> Iterator[tuple[BrokerId, Broker]]:
    for broker_id, broker in live.items():
        known = image.brokers.get(broker_id)
        yield broker_id, broker if known is None else amended_broker(known, broker)


def amended_broker(known: Broker, read: Broker) -> Broker:
    """Return a broker as it is after its registration was read again.

    The same life may have other listeners by now, and the rest that is known of it stays. One that
    is older than the known life was read too late.
    """
    if read.epoch > known.epoch:
        return read
    if read.epoch < known.epoch:
        return known
    return replace(known, endpoints=read.endpoints, rack=read.rack, features=read.features)
