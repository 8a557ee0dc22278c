"""How everything stands at one moment: plain values, made by `looking`, shown by `view`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RATE_OVER_S: Final = 5.0
"""Over how many seconds a rate is taken: shorter ones jump about."""


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """How a topic stands."""

    name: str
    records: int
    per_second: float


@dataclass(frozen=True, slots=True)
class PipelineFigures:
    """How a pipeline stands."""

    name: str
    state: str
    batch: int | None
    """Its last batch; None before there was one."""
    batch_ms: int
    watermark_ms: int | None
    lag: int
    """Records of its topic that it has not dealt with yet."""
    totals: Mapping[str, int]
    """What it says has become of the others."""
    rows: Mapping[str, int]
    """Of each of its tables."""

    @property
    def has_begun(self) -> bool:
        """Whether it has committed a batch."""
        return self.batch is not None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A few rows of something, as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How everything stands."""

    elapsed_s: float
    topics: Sequence[TopicFigures]
    pipelines: Sequence[PipelineFigures]
    excerpts: Sequence[Excerpt]


class Rates:
    """Turns counts that grow into rates."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Mapping[str, int]]] = deque()

    def of(self, now_s: float, counts: Mapping[str, int]) -> dict[str, float]:
        """Return how much each count has grown a second, over the last few seconds."""
        self._seen.append((now_s, counts))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - RATE_OVER_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        passed_s = now_s - then_s
        return {
            name: (count - before.get(name, 0)) / passed_s if passed_s else 0.0
            for name, count in counts.items()
        }
