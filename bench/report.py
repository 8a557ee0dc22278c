"""The table: medians, spread, ratios, bars."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from bench.bars import Measure
from bench.page import QUICK, Page

Figures = dict[str, float]

_CLIENT = (
    f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
)

_WORTH_SAYING = 0.005
"""Of the processors' time; less than that would be shown as nothing."""


@dataclass(slots=True)
class Samples:
    """What was measured: per kind of work, the rounds, each with (baseline, candidate)."""

    baseline: str
    candidate: str
    rounds: dict[str, list[tuple[Figures, Figures]]] = field(default_factory=dict)
    stolen: dict[str, list[float]] = field(default_factory=dict)
    """The larger share of the processors' time that other guests took from either side."""
    repeated: dict[str, int] = field(default_factory=dict)
    """Rounds that were measured anew, because others took too much."""
    failures: list[str] = field(default_factory=list)

    def add(self, work: str, baseline: Figures, candidate: Figures, *, stolen: float = 0.0) -> None:
        """Keep one round of one kind of work."""
        self.rounds.setdefault(work, []).append((baseline, candidate))
        self.stolen.setdefault(work, []).append(stolen)


def render(samples: Samples, page: Page, scale: str) -> str:
    """Return the whole page, as measured at a scale of this name."""
    about = (
        f"{samples.candidate} against {samples.baseline}, `{page.command}`, scale "
        f"{scale}. Medians over the rounds, least and greatest in brackets; a ratio is "
        "candidate / baseline within one round. A bar is met where every round clears it; where "
        "only some do, the table says how many."
    )
    if scale == QUICK:
        about += (
            " **This scale only tries the harness: a JVM has hardly compiled its hot code when it "
            "ends, so nothing here says how the two compare.**"
        )
    lines = [
        f"# {page.title}",
        "",
        about,
        "",
        f"{machine()}; client {_CLIENT}.",
        "",
        f"Scale: {page.describe_scale(page.scales[scale])}.",
        "",
        f"| work | unit | {samples.baseline} | {samples.candidate} | ratio | bar | met |",
        "|---|---|---|---|---|---|---|",
        *(row for measure in page.measures for row in _row(measure, samples)),
    ]
    shares = [share for rounds in samples.stolen.values() for share in rounds]
    if samples.repeated or max(shares, default=0.0) >= _WORTH_SAYING:
        lines += ["", _stolen(samples)]
    if samples.failures:
        lines += ["", "Not measured:", "", *(f"- {failure}" for failure in samples.failures)]
    return "\n".join(lines) + "\n"


def _stolen(samples: Samples) -> str:
    told = (
        f"{work} {', '.join(f'{share:.0%}' for share in shares)}"
        for work, shares in samples.stolen.items()
    )
    text = (
        "Processor time that other guests of the machine took, per round, from the side that "
        f"lost more: {'; '.join(told)}."
    )
    if samples.repeated:
        counts = (f"{work} {count}" for work, count in samples.repeated.items())
        text += f" Rounds thrown away and measured anew for that: {', '.join(counts)}."
    return text


def _row(measure: Measure, samples: Samples) -> list[str]:
    rounds = samples.rounds.get(measure.work)
    if not rounds:
        return []
    # What only one of the two can tell is printed, without a ratio.
    baseline = [figures[measure.name] for figures, _ in rounds if measure.name in figures]
    candidate = [figures[measure.name] for _, figures in rounds]
    shown = [spread(values) if values else "" for values in (baseline, candidate)]
    if measure.bar is None:
        return [_cells(measure.title, measure.unit, *shown, "", "printed", "")]
    ratios = [ours / theirs for theirs, ours in zip(baseline, candidate, strict=True) if theirs]
    if not ratios:
        return []
    bar = f"{measure.better.value} {measure.bar:g}x"
    met = verdict(measure, ratios)
    return [_cells(measure.title, measure.unit, *shown, f"{spread(ratios)}x", bar, met)]


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def verdict(measure: Measure, ratios: list[float]) -> str:
    """Say whether the bar is met, and do not round doubt away."""
    cleared = sum(measure.met(ratio) for ratio in ratios)
    if cleared == len(ratios):
        return "yes"
    return f"in {cleared} of {len(ratios)}" if cleared else "no"


def spread(values: list[float]) -> str:
    """Return the median, and the least and the greatest in brackets."""
    middle = _number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({_number(min(values))}-{_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> str:
    """Say where it was measured."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"Machine: {os.cpu_count()} x {_processor()}, {memory_gb:.0f} GB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
