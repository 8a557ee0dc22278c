"""A page of results: its rows, its scales, and on how many brokers it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kafka_harness.memberships import Keeping

from bench.bars import Measure
from bench.scale import Scale

QUICK, FULL = "quick", "full"


@dataclass(frozen=True, slots=True)
class Page:
    """What a run measures by default, and where its table goes."""

    title: str
    command: str
    measures: tuple[Measure, ...]
    scales: Mapping[str, Scale]
    """By name: `quick` only tries the harness, `full` is for results."""
    describe_scale: Callable[[Scale], str]
    rounds: int
    path: Path
    broker_count: int = 1
    baseline: str = "kafka"
    candidate: str = "moldau"
    keeping: tuple[Keeping, Keeping] = (Keeping.ONE_VOTER, Keeping.ONE_VOTER)
    """What keeps the metadata of a cluster: the baseline's, the candidate's."""

    @property
    def works(self) -> tuple[str, ...]:
        """Return the kinds of work that measure the rows, in their order."""
        return tuple(dict.fromkeys(measure.work for measure in self.measures))
