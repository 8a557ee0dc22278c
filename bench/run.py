"""`python -m bench.run`: every kind of work, both brokers in turn, several rounds, one table.

The order within a round alternates, so that neither side always finds the disk the other left.
The table is written after every kind of work, so that a run that is cut short has told something.

A module of `bench.works` has either `run(stage)`, which makes what it needs in every round, or
`prepared(stage)`, which makes it once and measures it in every round. Then both sides are on stage
at a time, and the one that waits has nothing to do.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.kafka_harness.distribution import KafkaUnavailableError
from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.kinds import KINDS, make_broker

from bench import page as pages
from bench.bars import MEASURES
from bench.page import Page
from bench.report import Figures, Samples, render
from bench.scale import FULL, QUICK, Scale
from bench.stage import BenchError, Stage
from bench.usage import Stolen

TRIES = 3
"""Of one round, where the machine is wanted steady."""

FAILURES = (BenchError, AssertionError, KafkaUnavailableError)

Measure = Callable[[], Figures]
"""Does a kind of work once, on one side."""


def _describe(scale: Scale) -> str:
    return (
        f"{scale.throughput_bytes / 1e9:g} GB (at most {scale.small_records:,} records) per size, "
        f"{scale.history_bytes / 1e9:g} GB of history, {scale.connections} connections for "
        f"{scale.connection_seconds} s, {scale.partitions} partitions, groups of "
        f"{scale.group_members}, {scale.offset_groups * 100:,} offsets, "
        f"{scale.compaction_bytes / 1e9:g} GB to compact"
    )


RESULTS = Page(
    title="Results",
    command="python -m bench.run",
    measures=MEASURES,
    scales={pages.QUICK: QUICK, pages.FULL: FULL},
    describe_scale=_describe,
    rounds=3,
    path=Path(__file__).parent / "RESULTS.md",
)


def parse(arguments: list[str], page: Page = RESULTS) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=page.command, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small scale, to try the harness")
    parser.add_argument("--rounds", type=int, default=page.rounds)
    parser.add_argument("--partitions", type=int, metavar="COUNT",
                        help="how many, in works that make many [of the scale]")  # fmt: skip
    parser.add_argument("--works", nargs="+", choices=page.works, default=page.works,
                        metavar="WORK", help=f"some of: {', '.join(page.works)}")  # fmt: skip
    parser.add_argument("--steady", type=float, default=100.0, metavar="PERCENT",
                        help="measure a round anew, twice at most, if other guests of the machine "
                        "took more than this of its processors from either side")  # fmt: skip
    parser.add_argument("--baseline", choices=KINDS, default=page.baseline)
    parser.add_argument("--candidate", choices=KINDS, default=page.candidate)
    parser.add_argument("--set", action="append", default=[], type=_setting, dest="settings",
                        metavar="NAME=VALUE", help="of the candidate's brokers")  # fmt: skip
    parser.add_argument("--directory", type=Path, help="where the data goes [a temporary folder]")
    parser.add_argument("--output", type=Path, default=page.path)
    return parser.parse_args(arguments)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main(arguments: list[str], page: Page = RESULTS) -> int:
    asked = parse(arguments, page)
    scale = pages.QUICK if asked.quick else pages.FULL
    if asked.partitions:
        page = _with_partitions(page, asked.partitions)
    with tempfile.TemporaryDirectory(prefix="moldau-bench-", dir=asked.directory) as folder:
        directory = Path(folder)
        samples = Samples(
            make_broker(asked.baseline, directory).version(),
            make_broker(asked.candidate, directory).version(),
        )
        for work in asked.works:
            _work(work, asked, directory, page, samples)
            asked.output.write_text(render(samples, page, scale))
    print(asked.output.read_text())
    return 1 if samples.failures else 0


def _with_partitions(page: Page, count: int) -> Page:
    """Change how many partitions are made, at every scale."""
    scales = {name: replace(scale, partitions=count) for name, scale in page.scales.items()}
    return replace(page, scales=scales)


def _work(
    work: str, asked: argparse.Namespace, directory: Path, page: Page, samples: Samples
) -> None:
    """Measure all rounds of a kind of work, and keep what was measured."""
    with ExitStack() as stack:
        try:
            measures = _measures(work, asked, directory, page, stack)
        except FAILURES as reason:
            _tell_failure(work, reason, samples)
            return
        for number in range(asked.rounds):
            _round(work, number, asked, measures, samples)


def _measures(
    work: str, asked: argparse.Namespace, directory: Path, page: Page, stack: ExitStack
) -> list[Measure]:
    """Return how to do the work, for each side; what is prepared ends with the stack."""
    module = importlib.import_module(f"bench.works.{work}")
    scale = page.scales[pages.QUICK if asked.quick else pages.FULL]
    of_candidate = dict(asked.settings)
    stages = [
        Stage(kind, directory / f"side-{side}", scale, page.broker_count, keeping, settings)
        for side, (kind, keeping, settings) in enumerate(
            zip((asked.baseline, asked.candidate), page.keeping, ({}, of_candidate), strict=True)
        )
    ]
    if hasattr(module, "prepared"):
        return [stack.enter_context(module.prepared(stage)) for stage in stages]
    return [partial(module.run, stage) for stage in stages]


def _round(
    work: str, number: int, asked: argparse.Namespace, measures: list[Measure], samples: Samples
) -> None:
    """Measure both sides, again if the machine was not steady, and keep what was measured."""
    for tries_left in reversed(range(TRIES)):
        measured: list[Figures] = [{}, {}]
        stolen = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            name = f"{work}, round {number + 1}, {(asked.baseline, asked.candidate)[side]}"
            others = Stolen()
            try:
                measured[side] = measures[side]()
            except FAILURES as reason:
                _tell_failure(name, reason, samples)
                return
            stolen[side] = others.share()
            shown = ", ".join(f"{what} {value:.4g}" for what, value in measured[side].items())
            print(f"{name}: {shown}; {stolen[side]:.1%} stolen", flush=True)
        if max(stolen) <= asked.steady / 100 or not tries_left:
            break
        samples.repeated[work] = samples.repeated.get(work, 0) + 1
    samples.add(work, *measured, stolen=max(stolen))


def _tell_failure(name: str, reason: Exception, samples: Samples) -> None:
    samples.failures.append(f"{name}: {reason}")
    print(samples.failures[-1], file=sys.stderr)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
