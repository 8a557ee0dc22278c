"""Several replicas of one partition with real logs, and a test that plays all that is between them.

A follower fetches by a call: the leader notes it, and the answer is appended before the call
returns. The test gives out roles and answers proposals, as the controller would.
"""

from __future__ import annotations

from kits import log_kit
from kits.log_kit import KEY, TOPIC_ID, make_batch, read_all, region_bytes
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.leader_state import IsrProposal
from moldau.replication.partition import ACKS_ALL, Partition, ReadLimit, Role
from moldau.replication.ports import ReplicationPorts
from moldau.storage.epochs import EpochEnd
from moldau.storage.log_truncation import run_steps
from moldau.storage.topic_config import LogConfig

MAX_LAG_S = 30.0


class Cluster:
    """What a partition hears of the other brokers, and what it asks the controller for."""

    def __init__(self) -> None:
        self.broker_epochs: dict[int, int] = {}
        self.ineligible: set[int] = set()
        self.proposals: list[tuple[Partition, IsrProposal]] = []

    def broker_epoch(self, broker_id):
        return self.broker_epochs.get(broker_id)

    def is_eligible(self, broker_id):
        return broker_id in self.broker_epochs and broker_id not in self.ineligible

    def propose(self, partition, proposal):
        self.proposals.append((partition, proposal))


class Replicas:
    """All replicas, by broker; the first leads at the start."""

    def __init__(self, *brokers: int, **config) -> None:
        self.cluster = Cluster()
        self.cluster.broker_epochs = dict.fromkeys(brokers, 1)
        self.now_s = 100.0
        self.role = Role(brokers[0], 0, 0, brokers, brokers)
        self.disks = {one: log_kit.Broker(config=LogConfig(**config)) for one in brokers}
        self.ports = ReplicationPorts(self.cluster, self.cluster, MAX_LAG_S)
        self.partitions = {one: self._open(one) for one in brokers}
        self.give(self.role)

    def _open(self, broker: int) -> Partition:
        log = self.disks[broker].log()
        return Partition(KEY, TOPIC_ID, log, broker, self.ports)

    def __getitem__(self, broker: int) -> Partition:
        return self.partitions[broker]

    @property
    def leader(self) -> Partition:
        return self.partitions[self.role.leader]

    def give(self, role: Role, *brokers: int) -> None:
        """Tell these brokers, or all, of a role."""
        self.role = role
        for one in brokers or tuple(self.partitions):
            if role.leader == one:
                self.partitions[one].become_leader(role, self.now_s)
            else:
                self.partitions[one].become_follower(role)

    def change(self, leader: int | None = None, isr=None) -> Role:
        """Return the next role: another ISR, or another leader in the next epoch."""
        old = self.role
        moved = leader not in (None, old.leader)
        return Role(
            leader if moved else old.leader,
            old.leader_epoch + moved,
            old.partition_epoch + 1,
            old.replicas,
            old.isr if isr is None else isr,
        )

    def produce(self, *values: bytes, acks: int = ACKS_ALL) -> None:
        """Append each value as a batch of its own."""
        for value in values:
            batch = make_batch([value])
            self.leader.append_as_leader(batch, parse_header(batch), acks)

    def fetch(self, broker: int) -> int:
        """Let a follower fetch once from the leader, and take the answer; return its size."""
        follower, leader = self.partitions[broker], self.leader
        offset, epoch = follower.log_end_offset, follower.role.leader_epoch
        end = leader.diverging(follower.log.epochs.latest, offset)
        if end is not None:
            self.truncate(broker, end, epoch)
            return 0
        leader.update_follower(
            broker,
            offset,
            epoch,
            self.now_s,
            log_start_offset=follower.log_start_offset,
            broker_epoch=self.cluster.broker_epochs[broker],
        )
        found = region_bytes(leader.read(offset, 1 << 20, ReadLimit.LOG_END))
        start = follower.start_below(found, epoch)
        if start is not None:
            run_steps(follower.restart_at(start, epoch))
        return follower.append_as_follower(
            found, epoch, leader.high_watermark, leader.log_start_offset
        )

    def truncate(self, broker: int, end: EpochEnd, epoch: int) -> None:
        """Let a follower truncate as its leader has answered, with its files."""
        follower = self.partitions[broker]
        run_steps(follower.truncate_to(follower.divergence(end, epoch), epoch))

    def restart(self, broker: int, *, high_watermark: int) -> None:
        """Kill a broker's process and open its log again, as its checkpoint says."""
        self.disks[broker] = self.disks[broker].kill()
        self.partitions[broker] = self._open(broker)
        self.partitions[broker].set_high_watermark(high_watermark)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest proposal, as a controller does that takes or refuses it."""
        partition, proposal = self.cluster.proposals.pop(0)
        if error is not ErrorCode.NONE:
            partition.isr_answer(proposal, error)
            return
        self.role = self.change(isr=proposal.isr)
        partition.isr_answer(
            proposal,
            error,
            leader_epoch=self.role.leader_epoch,
            partition_epoch=self.role.partition_epoch,
            isr=self.role.isr,
        )

    def ends(self, broker: int) -> tuple[int, int]:
        """Return a replica's log end and high watermark."""
        partition = self.partitions[broker]
        return partition.log_end_offset, partition.high_watermark

    def values(self, broker: int) -> list[bytes]:
        return [bytes(record.value) for record in read_all(self.partitions[broker].log)]
