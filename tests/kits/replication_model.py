"""A model of one replicated partition: brokers with lists for logs, a controller, a bad network.

The brokers decide by the real rules (`moldau.replication`); all else is as small as it can be. A
log is a list of (epoch, value). The controller decides atomically and fences by its epochs, as the
store of the metadata does. Everything between them travels as a message, which may be delayed, be
lost, or arrive twice; a broker may hear of the metadata late, and not of every version.

A broker that is fenced goes on acting: it appends, fetches and proposes until it hears of it. One
that crashes loses its memory, and may lose the tail of its log. Then its return is unclean, and it
leaves the ISR and the ELR; the last replica of both never loses its tail here, since nobody else
could have what it had.

`check` is called after every step; it raises `Violation`. What is checked, by the names of the
specification: StrongIsr (each member of the controller's ISR and ELR has everything that any leader
has ever called committed), log matching, one appender in an epoch, a high watermark that does not
go back in an epoch, a leader that is in the ISR, epochs in step with the log.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias

from kits.replication_controller import Controller, Image, Propose, Proposed
from moldau.protocol.errors import ErrorCode
from moldau.replication import leader_state, rules, truncation
from moldau.replication.leader_state import IsrProposal, LeaderState
from moldau.replication.role import NO_ROLE, Role
from moldau.storage.epochs import EpochEnd, LeaderEpochs

MAX_LAG_S = 10.0
LONGEST_ANSWER = 4
NETWORK_SIZE = 24
"""More messages than that are not under way at once: a follower has one fetch in flight."""


class Violation(AssertionError):  # noqa: N818 - what it is called in every report
    """Something happened that must never happen."""


class Fetch(NamedTuple):
    """A follower asks a leader."""

    sender: int
    leader: int
    epoch: int
    offset: int
    last_epoch: int
    broker_epoch: int


class Fetched(NamedTuple):
    """What the leader answers; `entries` is read again when it leaves, as from a file."""

    fetch: Fetch
    entries: list[tuple[int, int]]
    high_watermark: int
    diverging: EpochEnd | None = None
    leader_end: int = -1
    """Of an offset that is out of range."""


Message: TypeAlias = Fetch | Fetched | Propose | Proposed


def _proposal_of(message: Message) -> IsrProposal | None:
    if isinstance(message, Proposed):
        return message.propose.proposal
    return message.proposal if isinstance(message, Propose) else None


class Replica:
    """One broker's replica: what is on its disk, and what it believes."""

    __slots__ = (
        "broker_epoch",
        "checkpoint",
        "epochs",
        "high_watermark",
        "id",
        "image",
        "in_flight",
        "is_checked",
        "is_up",
        "life",
        "log",
        "role",
        "state",
    )

    def __init__(self, broker: int, image: Image) -> None:
        self.id = broker
        self.log: list[tuple[int, int]] = []
        self.epochs = LeaderEpochs()
        self.checkpoint = 0
        self.is_up = True
        self.life = 0
        self.broker_epoch = 1
        self.forget(image)

    def forget(self, image: Image) -> None:
        """Begin with nothing but the disk."""
        self.high_watermark = min(self.checkpoint, len(self.log))
        self.image = image
        self.role = NO_ROLE
        self.state: LeaderState | None = None
        self.is_checked = True
        self.in_flight: Fetch | None = None
        """Only its answer is taken, and once. An older one may be for a log that has been cut and
        has grown to the same end again."""


class Model:
    """All of it, one step at a time."""

    def __init__(self, replica_count: int = 3, min_isr: int = 2) -> None:
        self.min_isr = min_isr
        self.now_s = 0.0
        ids = tuple(range(replica_count))
        self.controller = Controller(ids, min_isr)
        self.replicas = [Replica(b, self.controller.image) for b in ids]
        self.network: list[Message] = []
        self.late: list[Message] = []
        """Messages that others overtake."""
        self.committed: list[tuple[int, int]] = []
        """What some leader has called committed."""
        self.appenders: dict[int, int] = {}
        self.told_latest: dict[int, int] = {}
        self.level: dict[tuple[int, int, int], tuple[float, int, float]] = {}
        """By leader, epoch and follower: time and leader's end at its last fetch, and when it was
        level. It says the rule about bursts a second time."""
        self.seen: Counter[str] = Counter()
        self._values = 0
        self._is_changed = True
        for replica in self.replicas:
            self.observe(replica.id)

    # What a leader does

    def append(self, broker: int) -> None:
        replica = self.replicas[broker]
        if replica.state is None or not replica.is_up:
            return
        epoch = replica.role.leader_epoch
        if self.appenders.setdefault(epoch, broker) != broker:
            raise Violation(f"{broker} and {self.appenders[epoch]} append in epoch {epoch}")
        self._values += 1
        replica.epochs.assign(epoch, len(replica.log))
        replica.log.append((epoch, self._values))
        self._advance(replica)

    def shrink(self, broker: int) -> None:
        replica = self.replicas[broker]
        state = replica.state
        if state is None or not replica.is_up:
            return
        state.now_s = self.now_s
        isr = rules.shrunk_isr(state, len(replica.log), self.now_s, MAX_LAG_S)
        if isr is not None:
            self._check_laggards(replica, set(state.isr).difference(isr))
            self.seen["shrink"] += 1
            self._propose(replica, state.propose(isr))
        self._advance(replica)

    def _check_laggards(self, replica: Replica, leaving: set[int]) -> None:
        for one in leaving:
            known = self.level.get((replica.id, replica.role.leader_epoch, one))
            if known is not None and self.now_s - known[2] <= MAX_LAG_S:
                raise Violation(f"{one} leaves the ISR though it keeps up")

    def resend(self, broker: int) -> None:
        """Propose again what was not answered.

        The connection is another then: neither an earlier copy nor its answer can still arrive.
        """
        replica = self.replicas[broker]
        if replica.state is None or not replica.is_up or replica.state.pending is None:
            return
        proposal = replica.state.pending
        self.network = [one for one in self.network if _proposal_of(one) is not proposal]
        self.late = [one for one in self.late if _proposal_of(one) is not proposal]
        self._propose(replica, proposal)

    def _propose(self, replica: Replica, proposal: IsrProposal) -> None:
        self.network.append(Propose(replica.id, replica.life, replica.broker_epoch, proposal))

    def list_latest(self, broker: int) -> None:
        """Tell a client where the partition ends; later leaders must not tell less."""
        replica = self.replicas[broker]
        if replica.state is None or not replica.is_up:
            return
        if not rules.is_latest_offset_known(replica.state, replica.high_watermark):
            self.seen["latest unknown"] += 1
            return
        epoch, told = replica.role.leader_epoch, replica.high_watermark
        if any(told < latest for e, latest in self.told_latest.items() if e <= epoch):
            raise Violation(f"{broker} says {told}, after {self.told_latest}")
        self.told_latest[epoch] = told

    def _advance(self, replica: Replica) -> None:
        assert replica.state is not None
        old = replica.high_watermark
        new = rules.next_high_watermark(
            replica.state, old, len(replica.log), self.min_isr, replica.image, MAX_LAG_S
        )
        if new == old:
            return
        if not old < new <= len(replica.log):
            raise Violation(f"high watermark of {replica.id} from {old} to {new}")
        replica.high_watermark = new
        known = min(new, len(self.committed))
        if replica.log[:known] != self.committed[:known]:
            raise Violation(f"{replica.id} commits what differs from what was committed")
        self.committed.extend(replica.log[known:new])
        self._is_changed = True

    # What a follower does

    def fetch(self, broker: int, *, again: bool = False) -> None:
        """Let a follower fetch; again: it does not wait for an answer any more."""
        replica, role = self.replicas[broker], self.replicas[broker].role
        if not replica.is_up or role.leader in (-1, broker) or len(self.network) > NETWORK_SIZE:
            return
        in_flight = replica.in_flight
        if in_flight is not None and in_flight.epoch == role.leader_epoch and not again:
            return
        last_epoch = -1 if replica.is_checked else replica.epochs.latest
        replica.in_flight = Fetch(
            broker,
            role.leader,
            role.leader_epoch,
            len(replica.log),
            last_epoch,
            replica.broker_epoch,
        )
        self.network.append(replica.in_flight)

    def _fetch(self, fetch: Fetch) -> None:
        """Handle a fetch at the broker that the follower takes for the leader."""
        replica = self.replicas[fetch.leader]
        state = replica.state
        if state is None or not replica.is_up or replica.role.leader_epoch != fetch.epoch:
            return
        if rules.is_outlived(fetch.broker_epoch, replica.image, fetch.sender):
            return
        log, offset = replica.log, fetch.offset
        end = truncation.diverging(
            replica.epochs, replica.role.leader_epoch, len(log), fetch.last_epoch, offset
        )
        if end is not None:
            self.network.append(Fetched(fetch, [], -1, diverging=end))
            return
        if offset > len(log):
            self.network.append(Fetched(fetch, [], -1, leader_end=len(log)))
            return
        follower = state.followers[fetch.sender]
        self._note_level(replica, fetch)
        follower.fetched(offset, len(log), self.now_s, 0, fetch.broker_epoch)
        state.now_s = self.now_s
        isr = rules.expanded_isr(state, follower, replica.high_watermark, replica.image)
        if isr is not None:
            self.seen["expand"] += 1
            self._propose(replica, state.propose(isr))
        self._advance(replica)
        entries = log[offset : offset + LONGEST_ANSWER]
        self.network.append(Fetched(fetch, entries, replica.high_watermark))

    def _note_level(self, replica: Replica, fetch: Fetch) -> None:
        key = (replica.id, fetch.epoch, fetch.sender)
        fetched_s, leader_end, level_s = self.level.get(key, (0.0, -1, float("-inf")))
        end = len(replica.log)
        if fetch.offset >= end:
            level_s = self.now_s
        elif 0 <= leader_end <= fetch.offset:
            level_s = max(level_s, fetched_s)
        self.level[key] = (self.now_s, end, level_s)

    def _fetched(self, answer: Fetched) -> None:
        """Take an answer, if it is still for what this follower would ask."""
        fetch = answer.fetch
        replica = self.replicas[fetch.sender]
        if replica.in_flight is not fetch:
            return
        replica.in_flight = None
        if replica.role.leader_epoch != fetch.epoch or not replica.is_up:
            return
        if answer.leader_end >= 0:
            self._cut(replica, min(answer.leader_end, len(replica.log)))
        elif answer.diverging is not None:
            offset = truncation.truncation_offset(
                replica.epochs, answer.diverging, len(replica.log), replica.high_watermark
            )
            if offset >= len(replica.log):
                raise Violation(f"{replica.id} asks the same again: it keeps {offset} records")
            self._cut(replica, offset)
        else:
            self._take(replica, self._sent(answer), fetch.epoch)
            replica.high_watermark = min(answer.high_watermark, len(replica.log))
            replica.is_checked = True

    def _sent(self, answer: Fetched) -> list[tuple[int, int]]:
        """Read a region when it leaves: the log may have been cut and written again meanwhile.

        A broker does not send what an earlier leader has written there. So only what a later one
        wrote can take the place of what was found first (KAFKA-18723).
        """
        fetch = answer.fetch
        offset, epoch = fetch.offset, fetch.epoch
        now = self.replicas[fetch.leader].log[offset : offset + len(answer.entries)]
        for old, new in zip(answer.entries, now, strict=False):
            if new is not old and new[0] <= epoch:
                return []
        return now

    def _take(self, replica: Replica, entries: list[tuple[int, int]], epoch: int) -> None:
        log = replica.log
        for entry in entries:
            if truncation.is_from_later_leader(entry[0], epoch):
                self.seen["later batch"] += 1
                break
            if log and entry[0] < log[-1][0]:
                raise Violation(f"{replica.id} takes epoch {entry[0]} behind {log[-1][0]}")
            replica.epochs.assign(entry[0], len(log))
            log.append(entry)
        for other in self.replicas:
            shared = min(len(log), len(other.log))
            if (
                shared
                and log[shared - 1][0] == other.log[shared - 1][0]
                and log[:shared] != other.log[:shared]
            ):
                raise Violation(f"the logs of {replica.id} and {other.id} differ before {shared}")

    def _cut(self, replica: Replica, offset: int) -> None:
        if offset < len(replica.log):
            del replica.log[offset:]
            replica.epochs.truncate_from_end(offset)
            self.seen["truncation"] += 1
            self._is_changed = True
        replica.high_watermark = min(replica.high_watermark, len(replica.log))

    # The network

    def deliver(self, number: int, *, again: bool = False) -> None:
        """Let a message arrive; again: it will arrive once more."""
        network = self.network
        if not network:
            return
        number %= len(network)
        message = network[number]
        # A second copy of a proposal would be a late one (`IsrChanges`).
        if not (again and not isinstance(message, Propose) and len(network) < NETWORK_SIZE):
            network[number] = network[-1]
            network.pop()
        if isinstance(message, Fetch):
            self._fetch(message)
        elif isinstance(message, Fetched):
            self._fetched(message)
        elif isinstance(message, Propose):
            self._alter(message, unsure=again)
        else:
            self._proposed(message)

    def delay(self, number: int) -> None:
        """Let a message be under way for long."""
        if self.network and len(self.late) < NETWORK_SIZE:
            self.late.append(self.network.pop(number % len(self.network)))

    def deliver_late(self, number: int) -> None:
        """Let a message arrive that was under way for long."""
        if self.late:
            self.network.append(self.late.pop(number % len(self.late)))
            self.deliver(len(self.network) - 1)

    def lose(self, number: int) -> None:
        """Let a message never arrive."""
        if self.network:
            self.network.pop(number % len(self.network))

    def _alter(self, asked: Propose, *, unsure: bool) -> None:
        """Let the controller decide; unsure: it fails before it can say how."""
        answer = self.controller.alter(asked)
        self.seen[f"answer {answer.error.name}"] += 1
        self.network.append(Proposed(asked, ErrorCode.NOT_CONTROLLER) if unsure else answer)
        self._is_changed = True

    def _proposed(self, answer: Proposed) -> None:
        asked = answer.propose
        replica = self.replicas[asked.sender]
        state = replica.state
        if not replica.is_up or replica.life != asked.life or state is None:
            return
        effect = rules.effect_of_answer(
            state, asked.proposal, answer.error, answer.leader_epoch, answer.partition_epoch
        )
        if effect is rules.AnswerEffect.COMMIT:
            if answer.partition_epoch == state.partition_epoch:
                state.revert()
            old = replica.role
            self._take_role(
                replica,
                Role(
                    old.leader,
                    old.leader_epoch,
                    answer.partition_epoch,
                    old.replicas,
                    answer.isr,
                ),
            )
        elif effect is rules.AnswerEffect.REVERT:
            state.revert()
            self._advance(replica)
        elif effect is rules.AnswerEffect.RESEND:
            self.resend(replica.id)

    # The metadata

    def observe(self, broker: int) -> None:
        """Let a broker hear of the newest metadata; what came before it missed."""
        replica, image = self.replicas[broker], self.controller.image
        if not replica.is_up or (image is replica.image and replica.role is not NO_ROLE):
            return
        replica.image = image
        if image.role.partition_epoch >= replica.role.partition_epoch:
            self._take_role(replica, image.role)

    def _take_role(self, replica: Replica, role: Role) -> None:
        old, replica.role = replica.role, role
        if role.leader == replica.id:
            state = replica.state
            if state is not None and state.pending is not None:
                self.seen["role while an ISR change is pending"] += 1
            if state is None or leader_state.begins_anew(state, role):
                replica.state = LeaderState(replica.id, role, len(replica.log), self.now_s)
            else:
                state.follow(role, self.now_s)
            self._advance(replica)
        else:
            if replica.state is not None:
                self.seen["leader resigns"] += 1
            replica.state = None
            if truncation.must_check_log(old, role):
                replica.is_checked = False

    def fence(self, broker: int) -> None:
        """Let the controller hear nothing of a broker for too long."""
        self.controller.fence(broker)
        self._is_changed = True

    def unfence(self, broker: int) -> None:
        replica, controller = self.replicas[broker], self.controller
        is_registered = replica.broker_epoch == controller.epochs[broker]
        if replica.is_up and is_registered and broker in controller.fenced:
            controller.unfence(broker)
            self._is_changed = True

    def move_leader(self, broker: int) -> None:
        self.controller.move_leader(broker)
        self._is_changed = True

    # Brokers that come and go

    def crash(self, broker: int, checkpoint: int) -> None:
        """Kill a broker; its checkpoint of the high watermark is this much behind."""
        replica = self.replicas[broker]
        if replica.is_up:
            replica.is_up = False
            replica.state = replica.in_flight = None
            replica.checkpoint = max(0, replica.high_watermark - checkpoint)

    def restart(self, broker: int, lost: int) -> None:
        """Start a broker again, without this many of its last records."""
        replica, controller = self.replicas[broker], self.controller
        if replica.is_up:
            return
        if not controller.may_lose_tail(broker):
            lost = 0
        lost = min(lost, len(replica.log))
        replica.broker_epoch = controller.register(broker, unclean=lost > 0)
        replica.life += 1
        replica.is_up = True
        if lost:
            self.seen["lost tail"] += 1
            del replica.log[len(replica.log) - lost :]
            replica.epochs.truncate_from_end(len(replica.log))
        replica.forget(controller.image)
        self.observe(broker)
        self._is_changed = True

    def tick(self, seconds: float) -> None:
        self.now_s += seconds

    # What must always be true

    def check(self) -> None:
        """Look at what the last step may have changed."""
        if not self._is_changed:
            return
        self._is_changed = False
        controller, committed = self.controller, self.committed
        role, count = controller.role, len(committed)
        if role.leader >= 0 and role.leader not in role.isr:
            raise Violation(f"leader {role.leader} is not in the ISR")
        for broker in role.isr:
            if self.replicas[broker].log[:count] != committed:
                raise Violation(f"{broker} is in the ISR and lacks what is committed")
            if broker in controller.fenced:
                raise Violation(f"{broker} is in the ISR and fenced")
        for broker in controller.elr:
            if self.replicas[broker].log[:count] != committed:
                raise Violation(f"{broker} may be elected and lacks what is committed")

    def check_epochs(self) -> None:
        """Compare every replica's epochs with its log; for the end of a walk."""
        for replica in self.replicas:
            starts = [
                (entry[0], offset)
                for offset, entry in enumerate(replica.log)
                if not offset or replica.log[offset - 1][0] != entry[0]
            ]
            if [tuple(entry) for entry in replica.epochs.entries] != starts:
                raise Violation(f"epochs {replica.epochs.entries} of {replica.log}")
