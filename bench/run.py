"""`python -m bench.run`: every kind of work, both brokers in turn, several rounds, one table.

The order within a round alternates, so that neither side always finds the disk the other left.
The table is written after every kind of work, so that a run that is cut short has told something.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from tests.kafka_harness.broker import BrokerError
from tests.kafka_harness.distribution import KafkaUnavailableError
from tests.kafka_harness.kinds import KINDS, make_broker

from bench.bars import MEASURES
from bench.report import Figures, Samples, render
from bench.scale import FULL, QUICK, Scale
from bench.stage import BenchError, Stage
from bench.usage import Stolen

WORKS = tuple(dict.fromkeys(measure.work for measure in MEASURES))
RESULTS = Path(__file__).parent / "RESULTS.md"
TRIES = 3
"""Of one round, where the machine is wanted steady."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small scale, to try the harness")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS, metavar="WORK",
                        help=f"some of: {', '.join(WORKS)}")  # fmt: skip
    parser.add_argument("--steady", type=float, default=100.0, metavar="PERCENT",
                        help="measure a round anew, twice at most, if other guests of the machine "
                        "took more than this of its processors from either side")  # fmt: skip
    parser.add_argument("--baseline", choices=KINDS, default="kafka")
    parser.add_argument("--candidate", choices=KINDS, default="moldau")
    parser.add_argument("--directory", type=Path, help="where the data goes [a temporary folder]")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    scale, name = (QUICK, "quick") if asked.quick else (FULL, "full")
    with tempfile.TemporaryDirectory(prefix="moldau-bench-", dir=asked.directory) as folder:
        directory = Path(folder)
        samples = Samples(
            make_broker(asked.baseline, directory).version(),
            make_broker(asked.candidate, directory).version(),
        )
        for work in asked.works:
            for number in range(asked.rounds):
                _round(work, number, asked, directory / "broker", scale, samples)
            asked.output.write_text(render(samples, scale, name))
    print(asked.output.read_text())
    return 1 if samples.failures else 0


def _round(
    work: str, number: int, asked: argparse.Namespace, directory: Path, scale: Scale,
    samples: Samples,
) -> None:  # fmt: skip
    """Measure both sides, again if the machine was not steady, and keep what was measured."""
    for tries_left in reversed(range(TRIES)):
        measured: list[Figures] = [{}, {}]
        stolen = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            kind = (asked.baseline, asked.candidate)[side]
            name = f"{work}, round {number + 1}, {kind}"
            others = Stolen()
            try:
                measured[side] = _measured(work, Stage(kind, directory, scale))
            except (BenchError, BrokerError, KafkaUnavailableError) as reason:
                samples.failures.append(f"{name}: {reason}")
                print(samples.failures[-1], file=sys.stderr)
                return
            stolen[side] = others.share()
            shown = ", ".join(f"{what} {value:.4g}" for what, value in measured[side].items())
            print(f"{name}: {shown}; {stolen[side]:.1%} stolen", flush=True)
        if max(stolen) <= asked.steady / 100 or not tries_left:
            break
        samples.repeated[work] = samples.repeated.get(work, 0) + 1
    samples.add(work, *measured, stolen=max(stolen))


def _measured(work: str, stage: Stage) -> Figures:
    figures: Figures = importlib.import_module(f"bench.works.{work}").run(stage)
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
