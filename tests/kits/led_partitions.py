"""Partitions on a simulated disk that other brokers follow, and the handler of Fetch over them."""

from __future__ import annotations

import random

from kits import log_kit
from kits.fetch_kit import FAR, unexpected
from kits.log_kit import HandClock, make_batch
from kits.partition_kit import ME, OTHER
from moldau.observe.traffic import Traffic
from moldau.records.batch import parse_header
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.replication.ports import ReplicationPorts
from moldau.server.fetch.reading import ParkedFetches
from moldau.server.fetch.sessions import FetchSessions
from moldau.server.handlers.fetch import FetchHandler

BOTH = Role(ME, 5, 1, (ME, OTHER), (ME, OTHER))
THIRD = 3


class LedPartitions:
    """What a leader has; it plays the cluster, too: two brokers are registered."""

    def __init__(self, topic_ids, stats, *, role=BOTH, slots=10):
        self.clock = HandClock()
        disk = log_kit.Broker()
        self.partitions = Partitions()
        self.proposals = []
        for key, topic_id in topic_ids.items():
            log = disk.manager.open_or_create(key, topic_id, disk.config)
            partition = Partition(key, topic_id, log, ME, ReplicationPorts(self, self))
            partition.become_leader(role, self.clock.monotonic())
            self.partitions.add(partition)
        self.sessions = FetchSessions(slots, 120.0, self.clock, random.Random(1))
        self.parked = ParkedFetches()
        self.traffic = Traffic()
        self.handler = FetchHandler(
            self.partitions,
            self.sessions,
            None,
            self.traffic,
            stats,
            unexpected,
            unexpected,
            max_bytes=FAR,
            is_for_brokers=lambda session: session.listener == "BROKERS",
            is_registered=lambda broker_id: self.broker_epoch(broker_id) is not None,
            parked=self.parked,
        )

    def broker_epoch(self, broker_id):
        return {OTHER: 7, THIRD: 7}.get(broker_id)

    def is_eligible(self, _):
        return True

    def propose(self, *proposal):
        self.proposals.append(proposal)

    def append_to(self, partition, batch=None):
        batch = batch or make_batch()
        return partition.append_as_leader(batch, parse_header(batch), 1)
