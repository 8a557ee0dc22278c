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
"""Of the CPU time; less would be shown as 0 %."""


@dataclass(slots=True)
class Samples:
    """What was measured: per kind of work, the rounds, each with (baseline, candidate)."""

    baseline: str
    candidate: str
    rounds: dict[str, list[tuple[Figures, Figures]]] = field(default_factory=dict)
    stolen: dict[str, list[float]] = field(default_factory=dict)
    """The share of CPU time that other guests took, from the side that lost more."""
    repeated: dict[str, int] = field(default_factory=dict)
    """Rounds that were measured again, because other guests took too much."""
    failures: list[str] = field(default_factory=list)

    def add(self, work: str, baseline: Figures, candidate: Figures, *, stolen: float = 0.0) -> None:
        """Keep one round of one kind of work."""
        self.rounds.setdefault(work, []).append((baseline, candidate))
        self.stolen.setdefault(work, []).append(stolen)


def render(samples: Samples, page: Page, scale: str) -> str:
    """Return the whole page, as measured at a scale of this name."""
    about = (
        f"{samples.candidate} against {samples.baseline}, `{page.command}`, scale "
        f"{scale}. Figures are medians over the rounds, with the lowest and highest in brackets. "
        "A ratio is candidate / baseline in one round. A bar is met if every round clears it; "
        "otherwise the table says how many rounds did."
    )
    if scale == QUICK:
        about += (
            " **This scale only tries the harness. It ends before a JVM has compiled its hot code, "
            "so the ratios mean nothing.**"
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
        # The rest of a failure is the end of a log, which the bench has printed.
        told = (failure.partition("\n")[0].rstrip(":") for failure in samples.failures)
        lines += ["", "Not measured:", "", *(f"- {one}" for one in told)]
    return "\n".join(lines) + "\n"


def _stolen(samples: Samples) -> str:
    told = (
        f"{work} {', '.join(f'{share:.0%}' for share in shares)}"
        for work, shares in samples.stolen.items()
    )
    text = (
        "CPU time stolen by other guests of the machine in each round, from the side that lost "
        f"more: {'; '.join(told)}."
    )
    if samples.repeated:
        counts = (f"{work} {count}" for work, count in samples.repeated.items())
        text += f" Rounds measured again because of it: {', '.join(counts)}."
    return text


def _row(measure: Measure, samples: Samples) -> list[str]:
    rounds = samples.rounds.get(measure.work)
    if not rounds:
        return []
    # A figure that only one of the two has is printed without a ratio.
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
    """Say whether the bar is met in all rounds, in some or in none."""
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
