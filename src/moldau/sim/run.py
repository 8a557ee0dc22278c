"""`python -m moldau.sim.run --seed 7`: run seeds of the simulation and say what they came to.

One seed is run twice, to see that it gives the same run; of many, every twentieth is. `--cluster`
runs a cluster of brokers in place of one, `--cluster --zookeeper` one on ZooKeeper, and `--cluster
--quorum` one whose metadata are in a quorum.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import click

from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.in_parallel import in_parallel
from moldau.sim.scenarios import Failed, ScenarioOutcome, run_seed

REPEATED_EVERY = 20
TOLD_EVERY = 50


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1, show_default=True, help="How many seeds, one after the other.")
@click.option("--jobs", default=1, show_default=True, help="How many seeds to run at a time.")
@click.option("--cluster", is_flag=True, help="Run a cluster of brokers, not one alone.")
@click.option("--zookeeper", is_flag=True, help="Let the cluster keep its metadata in ZooKeeper.")
@click.option("--quorum", is_flag=True, help="Let three brokers of the cluster be a quorum.")
@click.option("--fifo", is_flag=True, help="Keep asyncio's own order, to bisect a failure.")
def main(
    seed: int, count: int, jobs: int, cluster: bool, zookeeper: bool, quorum: bool, fifo: bool
) -> None:
    """Run brokers inside the simulation, decided by a seed alone.

    Ctrl-C ends it with what the seeds so far have come to.
    """
    if (zookeeper or quorum) and not cluster:
        name = "--zookeeper" if zookeeper else "--quorum"
        raise click.UsageError(f"{name} is for a cluster: --cluster {name}")
    if zookeeper and quorum:
        raise click.UsageError("--zookeeper and --quorum are two places for the same metadata")
    run_chosen = _chosen(cluster=cluster, zookeeper=zookeeper, quorum=quorum, fifo=fifo)
    run = partial(_run_one, run_chosen, first=seed)
    tally = Tally()
    with contextlib.suppress(KeyboardInterrupt):
        for number, outcome in in_parallel(run, range(seed, seed + count), jobs):
            tally.take(number, outcome)
            if count == 1 and not isinstance(outcome, str):
                click.echo(f"seed {number}: digest {outcome.digest}, {outcome.event_count} events")
            if tally.count % TOLD_EVERY == 0:
                click.echo(f"{tally.count} of {count} seeds have run", err=True)
    for event, times in sorted(tally.seen.items()):
        click.echo(f"{times:10d} {event}")
    if cluster and tally.count > 1:
        for line in coverage_lines(tally.seen, tally.count, zookeeper=zookeeper, quorum=quorum):
            click.echo(line)
    held = tally.count - len(tally.failed)
    click.echo(f"{held} of {tally.count} seeds held; failed: {tally.failed or 'none'}")
    if tally.count < count:
        click.echo(f"{count - tally.count} seeds have not run", err=True)
    sys.exit(bool(tally.failed) or tally.count < count)


Outcome = tuple[int, ScenarioOutcome | str]
"""A seed, and what it came to: the story, if it failed."""


@dataclass(slots=True)
class Tally:
    """What the seeds so far have come to."""

    count: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def take(self, seed: int, outcome: ScenarioOutcome | str) -> None:
        self.count += 1
        if isinstance(outcome, str):
            self.failed.append(seed)
            click.echo(outcome)
        else:
            self.seen += outcome.seen


def _chosen(
    *, cluster: bool, zookeeper: bool, quorum: bool, fifo: bool
) -> Callable[[int], ScenarioOutcome]:
    if cluster:
        return partial(run_cluster_seed, fifo=fifo, zookeeper=zookeeper, quorum=quorum)
    return partial(run_seed, fifo=fifo)


def _run_one(run: Callable[[int], ScenarioOutcome], seed: int, *, first: int) -> Outcome:
    try:
        outcome = run(seed)
        if (seed - first) % REPEATED_EVERY == 0 and run(seed).digest != outcome.digest:
            return seed, f"seed {seed}: not the same run twice"
    except Failed as failure:
        return seed, str(failure)
    return seed, outcome


if __name__ == "__main__":
    main()
