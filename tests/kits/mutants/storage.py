"""Mutants of the log, run with one simulated broker, or in a cluster where followers truncate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kits.mutants.cluster_runs import ZOMBIES, data
from kits.mutants.mutant import Mutant, RunSeed
from moldau.records.compression import Codec
from moldau.sim.scenarios import run_seed
from moldau.sim.swarm import Coordination
from moldau.sim.workload.producer import ProducerPlan
from moldau.storage import producers
from moldau.storage.log_truncation import Truncation
from moldau.storage.prepared_end import PreparedEnd

Patch = pytest.MonkeyPatch

RETRIES = (ProducerPlan(-1, True, 5, Codec.NONE, 0.02),) * 3


def one_broker(**focus: Any) -> RunSeed:
    """Make a short run of one broker without coordinators."""
    focus = {"duration_s": 3.0, "coordination": Coordination(), "fault_mean_s": 0.3} | focus
    return lambda seed: run_seed(seed, adjust=lambda swarm: replace(swarm, **focus))


def remember_one_batch_of_a_producer(patch: Patch) -> None:
    def duplicate(producer, header):
        last = producer.batches[-1] if producer.batches else None
        same = last is not None and last.last_sequence == header.last_sequence
        return last if same else None

    patch.setattr(producers, "_duplicate", duplicate)


def keep_producers_at_a_truncation(patch: Patch) -> None:
    patch.setattr(PreparedEnd, "fits", lambda *_: False)
    patch.setattr(Truncation, "_replay_producers", lambda *_: None)


MUTANTS = {
    "one batch of a producer is remembered, not five": Mutant(
        remember_one_batch_of_a_producer,
        one_broker(faults=("reset",), fault_mean_s=0.1, reset_chance=0.01, producers=RETRIES),
        "P4",
    ),
    "producer state survives a truncation": Mutant(
        keep_producers_at_a_truncation, data(*ZOMBIES), "E9|I8|P2|P4"
    ),
}
