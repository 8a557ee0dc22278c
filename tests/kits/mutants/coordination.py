"""Mutants of coordinators and of the markers that they write, run in a simulated cluster."""

from __future__ import annotations

import pytest

from kits.coordination_runs import NETWORK, TRANSACTIONS, run_coordinators
from kits.mutants.cluster_runs import COORDINATORS, coordinated
from kits.mutants.mutant import Mutant
from moldau.replication.pending_commits import PendingCommits
from moldau.server.lifecycle.internal_partitions import LedPartition
from moldau.server.transactions import markers
from moldau.storage.producers import ProducerStates

Patch = pytest.MonkeyPatch


class _NoCommits(PendingCommits):
    """Waits for nothing."""

    def add(self, *_) -> None:
        pass


def answer_markers_before_the_high_watermark(patch: Patch) -> None:
    patch.setattr(markers, "PendingCommits", _NoCommits)


def reply_before_the_commit(patch: Patch) -> None:
    end = property(lambda self: self._partition.log_end_offset)
    patch.setattr(LedPartition, "committed_offset", end)


def ignore_the_oldest_transaction(patch: Patch) -> None:
    update = ProducerStates._update_first_unstable

    def without_oldest(self):
        if not self._ongoing:
            update(self)
            return
        oldest = self._ongoing.popitem(last=False)
        update(self)
        self._ongoing[oldest[0]] = oldest[1]
        self._ongoing.move_to_end(oldest[0], last=False)

    patch.setattr(ProducerStates, "_update_first_unstable", without_oldest)


def _transactions_on_one_broker(seed: int) -> object:
    return run_coordinators(seed, TRANSACTIONS, NETWORK, duration_s=3.0)


MUTANTS = {
    "a marker is answered before the high watermark": Mutant(
        answer_markers_before_the_high_watermark, coordinated(*COORDINATORS), "P3|P5|P7"
    ),
    "a coordinator replies before the commit": Mutant(
        reply_before_the_commit, coordinated(*COORDINATORS), "P5|P6|G1|G2|I10|errors"
    ),
    "the last stable offset ignores an open transaction": Mutant(
        ignore_the_oldest_transaction, _transactions_on_one_broker, "P3|P5"
    ),
}
