"""The controller of the replication model: what it decides over the ISR and the leader, atomically.

Its rules are Kafka's: the order of checks of AlterPartition, elections from the ISR and then from
the eligible leader replicas (KIP-966), and an unclean return that costs a place in both. A test can
switch some of them off, to show that the model notices.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.replication.leader_state import IsrProposal
from moldau.replication.role import Role


class Image:
    """The metadata at one version, as a broker may see it."""

    __slots__ = ("epochs", "fenced", "role")

    def __init__(self, role: Role, epochs: dict[int, int], fenced: set[int]) -> None:
        self.role = role
        self.epochs = epochs
        self.fenced = fenced

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def is_eligible(self, broker_id: int) -> bool:
        return broker_id not in self.fenced


class Propose(NamedTuple):
    """A leader asks the controller."""

    sender: int
    life: int
    broker_epoch: int
    proposal: IsrProposal


class Proposed(NamedTuple):
    """What the controller answers."""

    propose: Propose
    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class Controller:
    """Decides over the ISR and the leader; each decision is a version of the metadata."""

    def __init__(self, replicas: tuple[int, ...], min_isr: int) -> None:
        self.checks_members = True
        """Mutant: a fenced broker may join."""
        self.checks_broker_epochs = True
        """Mutant: a broker may join by what it had in an earlier life."""
        self.removes_unclean = True
        """Mutant: a broker that returns without its tail keeps its place."""
        self.needed = min(min_isr, len(replicas))
        self.role = Role(replicas[0], 0, 0, replicas, replicas)
        self.elr: set[int] = set()
        self.epochs = dict.fromkeys(replicas, 1)
        self.fenced: set[int] = set()
        self.next_broker_epoch = 2
        self.image = Image(self.role, dict(self.epochs), set())
        self.elections = 0

    def _change(self, isr: tuple[int, ...], elr: set[int], leader: int | None = None) -> None:
        """Commit another ISR, with a leader from it or, if it is empty, from the ELR."""
        role = self.role
        if leader is None:
            leader = role.leader if role.leader in isr else -1
        if leader < 0:
            candidates = isr or elr
            able = [b for b in role.replicas if b in candidates and b not in self.fenced]
            if able:
                leader = able[0]
                isr = isr or (leader,)
        self.elr = set() if len(isr) >= self.needed else elr.difference(isr)
        changed = leader != role.leader
        self.elections += changed
        self.role = Role(
            leader, role.leader_epoch + changed, role.partition_epoch + 1, role.replicas, isr
        )
        self._publish()

    def _publish(self) -> None:
        self.image = Image(self.role, dict(self.epochs), set(self.fenced))

    def _without(self, broker: int) -> None:
        isr = tuple(b for b in self.role.isr if b != broker)
        self._change(isr, self.elr.union(self.role.isr))

    def fence(self, broker: int) -> None:
        self.fenced.add(broker)
        if broker in self.role.isr:
            self._without(broker)
        else:
            self._publish()

    def unfence(self, broker: int) -> None:
        self.fenced.discard(broker)
        if self.role.leader < 0:
            self._change(self.role.isr, self.elr)
        else:
            self._publish()

    def may_lose_tail(self, broker: int) -> bool:
        """Tell whether somebody else surely has what this one had."""
        return bool((self.elr | set(self.role.isr)) - {broker})

    def register(self, broker: int, *, unclean: bool) -> int:
        """Begin another life of a broker: fenced, and out of ISR and ELR if it is unclean."""
        self.epochs[broker] = self.next_broker_epoch
        self.next_broker_epoch += 1
        if not self.removes_unclean:
            self._publish()
            return self.epochs[broker]
        self.fence(broker)
        if unclean and broker in self.elr:
            self.elr.discard(broker)
            self._change(self.role.isr, self.elr)
        return self.epochs[broker]

    def move_leader(self, broker: int) -> None:
        if broker in self.role.isr and broker not in self.fenced:
            self._change(self.role.isr, self.elr, broker)

    def alter(self, asked: Propose) -> Proposed:
        """Decide over a proposal, in Kafka's order of checks."""
        role, proposal = self.role, asked.proposal
        error = ErrorCode.NONE
        if asked.broker_epoch != self.epochs[asked.sender]:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif proposal.leader_epoch < role.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif role.leader != asked.sender:
            error = ErrorCode.INVALID_REQUEST
        elif proposal.partition_epoch < role.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        elif any(map(self._is_ineligible, proposal.isr, proposal.broker_epochs)):
            error = ErrorCode.INELIGIBLE_REPLICA
        if error is not ErrorCode.NONE:
            return Proposed(asked, error)
        if set(proposal.isr) != set(role.isr):
            self._change(proposal.isr, self.elr.union(role.isr))
        role = self.role
        return Proposed(asked, error, role.leader_epoch, role.partition_epoch, role.isr)

    def _is_ineligible(self, broker: int, epoch: int) -> bool:
        if self.checks_members and broker in self.fenced:
            return True
        return self.checks_broker_epochs and epoch not in (-1, self.epochs[broker])
