"""`python -m bench.spark.run`: every contest, both connectors in turn, one page.

The page is written after every contest, so that a run that is cut short has told something.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.kafka_harness.broker import BrokerProcess
from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.kinds import make_broker

from bench.spark import contests
from bench.spark.contests import Arena, Contest
from bench.spark.idle import idle_triggers
from bench.spark.page import render
from bench.spark.results import MAIN_CORES, SECOND_CORE, Results, Round, Taken
from bench.spark.scale import FULL, QUICK, Scale
from bench.spark.session import Spark, started
from bench.usage import cpu_seconds

CONTESTS: dict[str, Callable[[Arena], Contest]] = {
    "read_small": contests.read_small,
    "read_large": contests.read_large,
    "stream_small": contests.stream_small,
    "write_small": contests.write_small,
    "write_once": contests.write_once,
    "read_small_batches": contests.read_small_batches,
    "read_uneven": contests.read_uneven,
    "read_variants": contests.read_variants,
}
IDLE = "idle"
ONE_CORE = "one_core"
ACTIVITY = "activity"
WORKS = (*CONTESTS, IDLE, ONE_CORE, ACTIVITY)
STATED_ONLY = ("read_small_batches", "read_uneven", "read_variants")
"""Have no bar, and come when the virtual machine is warm: one round is enough to warm up."""
RESULTS = Path(__file__).parents[1] / "SPARK.md"
_ACTIVITY_TIMEOUT_S = 600


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small scale, to try the harness")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS, metavar="WORK",
                        help=f"some of: {', '.join(WORKS)}")  # fmt: skip
    parser.add_argument("--directory", type=Path, help="where the data goes [a temporary folder]")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


class Run:
    """One run: the broker, what is asked for, and what was found."""

    def __init__(self, asked: argparse.Namespace, broker: BrokerProcess, directory: Path) -> None:
        self._asked = asked
        self._broker = broker
        self._directory = directory
        self._scale: Scale = QUICK if asked.quick else FULL
        self._began = time.monotonic()
        self.results = Results(broker.version(), self._scale)

    def all_works(self) -> None:
        """Do everything that is asked for."""
        asked = [name for name in CONTESTS if name in self._asked.works]
        if asked or IDLE in self._asked.works:
            self._session(MAIN_CORES, asked)
        if ONE_CORE in self._asked.works:
            self._session(1, [name for name, _ in SECOND_CORE])
        if ACTIVITY in self._asked.works:
            self.results.activity = _activity(self._scale)
            self._write("the activity pipeline")

    def _session(self, cores: int, names: list[str]) -> None:
        with started(cores, self._directory / f"spark-{cores}") as spark:
            directory = self._directory / f"streams-{cores}"
            arena = Arena(spark.session, self._broker.address, self._scale, directory)
            for name in names:
                self._contest(name, arena, spark, cores)
            if cores == MAIN_CORES and IDLE in self._asked.works:
                used = self._used_by(spark)
                self.results.idle = list(idle_triggers(arena, used))
                self._write("idle triggers")

    def _used_by(self, spark: Spark) -> Callable[[], tuple[float, float]]:
        return lambda: (spark.cpu_seconds(), cpu_seconds(self._broker.pid))

    def _contest(self, name: str, arena: Arena, spark: Spark, cores: int) -> None:
        contest = CONTESTS[name](arena)
        warm_ups = min(1, self._scale.warm_ups) if name in STATED_ONLY else self._scale.warm_ups
        rounds = []
        for number in range(warm_ups + self._scale.rounds):
            taken = self._round(contest, spark, number)
            if number >= warm_ups:
                rounds.append(taken)
        self.results.rounds[name, cores] = rounds
        self._write(f"{name} on {cores} cores")

    def _round(self, contest: Contest, spark: Spark, number: int) -> Round:
        """Have every side do the work once, in an order that alternates."""
        used = self._used_by(spark)
        names = list(contest.sides)
        taken = {}
        for name in names if number % 2 else reversed(names):
            with contest.sides[name]() as action:
                cpu_before, began = used(), time.perf_counter()
                action()
                seconds, cpu_after = time.perf_counter() - began, used()
            spent = (after - before for before, after in zip(cpu_before, cpu_after, strict=True))
            taken[name] = Taken(contest.rows, seconds, *spent)
        return taken

    def _write(self, done: str) -> None:
        self.results.minutes = (time.monotonic() - self._began) / 60
        self._asked.output.write_text(render(self.results))
        print(f"{self.results.minutes:5.1f} min  {done}", flush=True)


def _activity(scale: Scale) -> list[str]:
    """Run the bench of the pipeline, which starts its own broker and Spark; return what it says."""
    command = [
        sys.executable, "-m", "bench.spark.activity", "--rows", str(scale.activity_rows),
        "--seconds", str(scale.activity_seconds),
    ]  # fmt: skip
    told = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=_ACTIVITY_TIMEOUT_S
    )
    return told.stdout.splitlines()


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="moldau-bench-", dir=asked.directory) as folder,
        make_broker("moldau", Path(folder) / "broker") as broker,
    ):
        Run(asked, broker, Path(folder)).all_works()
    print(asked.output.read_text())
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
