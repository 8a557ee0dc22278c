"""All fetchers of a broker: which of them copies which partition, and from whom.

A partition belongs to one fetcher, by its leader and by Kafka's hash of its name. `follow` is
called whenever a partition's role changes. A new leader epoch always begins again where the log
ends, also under the same leader: epochs of which this broker has not heard may lie in between, in
which the leader was truncated (KAFKA-7164).

A fetcher begins with its first partition and ends with its last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from moldau.base.ids import BrokerId, PartitionKey
from moldau.replication.fetching.fetcher import Fetcher
from moldau.replication.fetching.followed import Followed
from moldau.replication.fetching.plan import FollowedKey
from moldau.replication.fetching.ports import FollowerContext
from moldau.replication.partition import Partition

_HASH_MODULUS = 2**32

MOVED_PER_TURN = 200
"""Replicas that change their fetcher between two turns of the loop: a millisecond or two."""


class Fetchers:
    """What this broker follows. Owned by the event loop's thread."""

    def __init__(self, context: FollowerContext) -> None:
        self._context = context
        self._count = context.settings.num_replica_fetchers
        self._fetchers: dict[tuple[BrokerId, int], Fetcher] = {}
        self._places: dict[PartitionKey, tuple[Fetcher, FollowedKey]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed_bytes_in = 0
        self._is_closed = False

    def follow(self, replica: Partition) -> None:
        """Copy a partition as its role says now: from its leader, or not at all."""
        if self._is_closed:
            return  # Roles change while a broker stops. Its logs are about to be closed.
        role = replica.role
        if role.leader < 0 or role.leader == self._context.broker_id:
            self.forget(replica.key)
            return
        followed = self._find(replica.key)
        if (
            followed is not None
            and not followed.failed
            and followed.replica is replica
            and followed.leader_epoch == role.leader_epoch
        ):
            return  # Only its replicas or its ISR have changed.
        self._take_away(replica.key)
        fetcher = self._fetcher(role.leader, fetcher_number(replica.key, self._count))
        fetcher.add(replica)
        key = (replica.topic_id, replica.key.partition)
        self._places[replica.key] = fetcher, key
        self._close_idle()

    def forget(self, key: PartitionKey) -> None:
        """Copy a partition no more: it is led here, or gone."""
        self._take_away(key)
        self._close_idle()

    def resize(self, count: int) -> None:
        """Use another number of fetchers for each leader; replicas move some in each turn."""
        if count != self._count:
            self._count = count
            self._move([followed.replica for followed in self._all()])

    def _move(self, replicas: list[Partition]) -> None:
        """Give replicas to the fetchers that are to copy them; those that are still copied."""
        for replica in replicas[:MOVED_PER_TURN]:
            followed = self._find(replica.key)
            if followed is not None and followed.replica is replica:
                self._take_away(replica.key)
                self.follow(replica)
        self._close_idle()
        if len(replicas) > MOVED_PER_TURN:
            later = replicas[MOVED_PER_TURN:]
            asyncio.get_running_loop().call_soon(self._move, later)

    async def close(self) -> None:
        """Copy nothing from now on, whatever roles change, and wait until nothing runs."""
        self._is_closed = True
        for key in tuple(self._places):
            self._take_away(key)
        self._close_idle()
        await asyncio.gather(*self._closing)

    def _find(self, key: PartitionKey) -> Followed | None:
        place = self._places.get(key)
        return None if place is None else place[0].get(place[1])

    def _all(self) -> Iterator[Followed]:
        # Copied in one step: another thread asks for figures.
        for fetcher in tuple(self._fetchers.values()):
            yield from tuple(fetcher)

    def _take_away(self, key: PartitionKey) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            place[0].remove(place[1])

    def _fetcher(self, leader: BrokerId, number: int) -> Fetcher:
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self._fetchers[leader, number] = Fetcher(leader, number, self._context)
        return fetcher

    def _close_idle(self) -> None:
        """End the fetchers that have lost their last partition."""
        for place in [place for place, fetcher in self._fetchers.items() if not len(fetcher)]:
            fetcher = self._fetchers.pop(place)
            self._closed_bytes_in += fetcher.bytes_in
            closing = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def waiting_for(self, longer_than_s: float) -> set[BrokerId]:
        """Return the leaders that have owed an answer for longer than they may take for one."""
        wait_s = self._context.settings.replica_fetch_wait_max_ms / 1000 + longer_than_s
        sent_before = asyncio.get_running_loop().time() - wait_s
        return {
            leader
            for (leader, _), fetcher in self._fetchers.items()
            if (since := fetcher.waiting_since) is not None and since < sent_before
        }

    # Figures, by the names that Kafka gives them

    @property
    def max_lag(self) -> int:
        """MaxLag of ReplicaFetcherManager: the most that a replica is behind its leader."""
        return max((followed.lag for followed in self._all()), default=0)

    @property
    def failed_partitions_count(self) -> int:
        """FailedPartitionsCount of ReplicaFetcherManager."""
        return sum(followed.failed for followed in self._all())

    @property
    def bytes_in(self) -> int:
        """Bytes that were copied from leaders, for ReplicationBytesInPerSec."""
        return self._closed_bytes_in + sum(one.bytes_in for one in tuple(self._fetchers.values()))

    @property
    def fetcher_count(self) -> int:
        """How many fetchers run."""
        return len(self._fetchers)


def fetcher_number(key: PartitionKey, count: int) -> int:
    """Say which of a leader's fetchers copies a partition, by Kafka's rule."""
    value = 0
    units = key.topic.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):  # String.hashCode
        value = (31 * value + int.from_bytes(units[at : at + 2])) % _HASH_MODULUS
    value = (31 * value + key.partition) % _HASH_MODULUS
    if value >= _HASH_MODULUS // 2:
        value = _HASH_MODULUS - value
    # The smallest 32-bit number has no positive counterpart; Kafka takes 0.
    return 0 if value == _HASH_MODULUS // 2 else value % count
