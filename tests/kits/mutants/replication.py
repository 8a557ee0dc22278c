"""Mutants of replication, run in a simulated cluster.

Most switch off the rule that a mutant of the model switches off (`kits.replication_mutants`), here
in a whole cluster: in the leader, in the follower and, where it checks the same, in the controller.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.mutants.cluster_runs import (
    CUTS,
    KILLS,
    LAGS,
    LOST_ANSWERS,
    POWER,
    QUICK_LAG,
    SLOW_LAG,
    ZOMBIES,
    data,
    on_zookeeper,
)
from kits.mutants.mutant import Apply, Mutant
from kits.replication_mutants import MUTANTS as OF_THE_MODEL
from moldau.cluster import brokers, isr_changes
from moldau.protocol.errors import ErrorCode
from moldau.replication import rules, truncation
from moldau.replication.delayed import DelayedOperations
from moldau.replication.partition import Partition, ReadLimit
from moldau.replication.pending_commits import PendingCommits
from moldau.server.fetch.reading import Fetch
from moldau.server.handlers import produce_fast_path
from moldau.server.lifecycle.replicas import Replicas
from moldau.sim.cluster.swarm import TopicPlan

Patch = pytest.MonkeyPatch


def _as_in_the_model(name: str) -> Apply:
    return lambda patch: OF_THE_MODEL[name].apply(patch.setattr)


# What is committed


def count_only_the_own_log(patch: Patch) -> None:
    def advance(state, high_watermark, log_end_offset, *_):
        return max(high_watermark, log_end_offset)

    patch.setattr(rules, "next_high_watermark", advance)


def acknowledge_before_the_high_watermark(patch: Patch) -> None:
    patch.setattr(PendingCommits, "__bool__", lambda self: False)
    patch.setattr(PendingCommits, "add", lambda *_: None)
    patch.setattr(produce_fast_path, "ACKS_ALL", None)  # no request is waited for


def keep_operations_waiting(patch: Patch) -> None:
    patch.setattr(DelayedOperations, "fail_all", lambda self, code: None)


# Who is in sync


def let_anybody_join(patch: Patch) -> None:
    patch.setattr(rules, "has_reached_isr", lambda state, follower, high_watermark: True)


def let_fenced_brokers_join(patch: Patch) -> None:
    _as_in_the_model("a fenced broker joins")(patch)
    patch.setattr(isr_changes, "_may_join", lambda broker, epoch, _: broker is not None)


def let_earlier_lives_join(patch: Patch) -> None:
    _as_in_the_model("a join without the broker epoch")(patch)
    may_join = isr_changes._may_join
    patch.setattr(
        isr_changes,
        "_may_join",
        lambda broker, _, partition: may_join(broker, isr_changes.ANY_BROKER_EPOCH, partition),
    )


def return_as_if_nothing_was_lost(patch: Patch) -> None:
    register = brokers.register_broker

    def register_as_clean(image, registration, **options):
        known = image.brokers.get(registration.broker_id)
        if known is not None:
            registration = replace(registration, previous_broker_epoch=known.epoch)
        return register(image, registration, **options)

    patch.setattr(brokers, "register_broker", register_as_clean)


def pass_changes_of_metadata_by(patch: Patch) -> None:
    changed = Replicas.changed

    def forgetful(self, changes, image):
        changed(self, () if image.version % 7 == 3 else changes, image)

    patch.setattr(Replicas, "changed", forgetful)


# Truncation


def compare_no_epochs(patch: Patch) -> None:
    patch.setattr(truncation, "diverging", lambda *_: None)


# Who serves


class _ReadToItsEnd:
    """A partition whose records all count as committed."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def __getattr__(self, name: str) -> object:
        return getattr(self._partition, name)

    @property
    def high_watermark(self) -> int:
        return self._partition.log_end_offset

    last_stable_offset = high_watermark

    def read(self, offset, max_bytes, limit, *, at_least_one=True):
        del limit
        return self._partition.read(offset, max_bytes, ReadLimit.LOG_END, at_least_one=at_least_one)


def serve_consumers_as_a_follower(patch: Patch) -> None:
    led = Fetch._led

    def anybody(self, reader):
        found = led(self, reader)
        if found is not ErrorCode.NOT_LEADER_OR_FOLLOWER or self._follower is not None:
            return found
        partition = self._find(reader)
        return _ReadToItsEnd(partition) if isinstance(partition, Partition) else found

    patch.setattr(Fetch, "_led", anybody)


def append_after_the_leadership(patch: Patch) -> None:
    check = Partition.check_writable

    def lenient(self, acks):
        if self.leads or self.role.leader < 0:
            check(self, acks)

    patch.setattr(Partition, "check_writable", lenient)


ALL_LEAD = {"topics": (TopicPlan("topic-0", 3, 3, 2),)}
ALL_IN_SYNC = {"topics": (TopicPlan("topic-0", 3, 3, 3),)}
LEADER_ALONE = {"topics": (TopicPlan("topic-0", 3, 2, 1),)}
"""The high watermark moves on with the leader alone, and the voter need not be a replica."""
COMMITTED = "I3|P1|P2|P9"

MUTANTS = {
    "the high watermark ignores a follower": Mutant(
        _as_in_the_model("the high watermark ignores a follower"), data(*KILLS), COMMITTED
    ),
    "the high watermark is the leader's end": Mutant(
        count_only_the_own_log, data(*KILLS), COMMITTED
    ),
    "the high watermark moves below min ISR": Mutant(
        _as_in_the_model("the high watermark moves below min ISR"), data(*KILLS), COMMITTED
    ),
    "acknowledged before the high watermark": Mutant(
        acknowledge_before_the_high_watermark, data(*KILLS), "P1|P2|P4|P9|I3"
    ),
    "pending operations survive a role change": Mutant(
        keep_operations_waiting, data(*ZOMBIES), "I13"
    ),
    "a pending ISR is ignored": Mutant(
        _as_in_the_model("a pending ISR is ignored"),
        data(*LOST_ANSWERS, settings=QUICK_LAG, **LEADER_ALONE),
        COMMITTED,
    ),
    "any follower that fetches joins the ISR": Mutant(let_anybody_join, data(*LAGS), COMMITTED),
    "a join without the epoch start": Mutant(
        _as_in_the_model("the ISR grows without the epoch start"),
        data(*ZOMBIES, "isolation", settings=SLOW_LAG | {"replica.fetch.max.bytes": "500"}),
        COMMITTED,
    ),
    "a join without the broker epoch": Mutant(
        let_earlier_lives_join,
        on_zookeeper("late join", settings=QUICK_LAG, fault_mean_s=1.5, **ALL_LEAD),
        f"{COMMITTED}|P7",
    ),
    "a fenced broker joins": Mutant(let_fenced_brokers_join, data(*CUTS), "I4"),
    "a broker keeps its ISR membership after an unclean stop": Mutant(
        return_as_if_nothing_was_lost, data(*POWER, **ALL_IN_SYNC), COMMITTED
    ),
    "a metadata change is skipped": Mutant(pass_changes_of_metadata_by, data(*KILLS), "P7|I3"),
    "truncation to the high watermark": Mutant(
        _as_in_the_model("truncation to the high watermark"), data(*ZOMBIES), COMMITTED
    ),
    "epochs are never compared (first version of KIP-320)": Mutant(
        compare_no_epochs, data(*KILLS), "I3|P1|P2|P7|I6|E9"
    ),
    "the latest offset is reported after an election": Mutant(
        _as_in_the_model("the latest offset is reported after an election"), data(*ZOMBIES), "P9"
    ),
    "a follower serves above the high watermark": Mutant(
        serve_consumers_as_a_follower, data(*KILLS), "P1|P2|P3|P9"
    ),
    "a deposed leader still appends": Mutant(
        append_after_the_leadership, data(*ZOMBIES), "I2|I3|P1|P2|P4|P7"
    ),
}
