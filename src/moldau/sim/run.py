"""`python -m moldau.sim.run --seed 7`: run seeds of the simulation and say what they came to.

One seed is run twice, to see that it gives the same run; of many, every twentieth is. `--cluster`
runs a cluster of brokers in place of one, and `--cluster --zookeeper` one on ZooKeeper.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

import click

from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.in_parallel import in_parallel
from moldau.sim.scenarios import Failed, ScenarioOutcome, run_seed

REPEATED_EVERY = 20


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1, show_default=True, help="How many seeds, one after the other.")
@click.option("--jobs", default=1, show_default=True, help="How many seeds to run at a time.")
@click.option("--cluster", is_flag=True, help="Run a cluster of brokers, not one alone.")
@click.option("--zookeeper", is_flag=True, help="Let the cluster keep its metadata in ZooKeeper.")
@click.option("--fifo", is_flag=True, help="Keep asyncio's own order, to bisect a failure.")
def main(seed: int, count: int, jobs: int, cluster: bool, zookeeper: bool, fifo: bool) -> None:
    """Run brokers inside the simulation, decided by a seed alone."""
    seen: Counter[str] = Counter()
    failed: list[int] = []
    if zookeeper and not cluster:
        raise click.UsageError("--zookeeper is for a cluster: --cluster --zookeeper")
    run = partial(_run_one, _chosen(cluster=cluster, zookeeper=zookeeper, fifo=fifo), first=seed)
    for number, outcome in in_parallel(run, range(seed, seed + count), jobs):
        if isinstance(outcome, str):
            failed.append(number)
            click.echo(outcome)
        else:
            seen += outcome.seen
            if count == 1:
                click.echo(f"seed {number}: digest {outcome.digest}, {outcome.event_count} events")
    for event, times in sorted(seen.items()):
        click.echo(f"{times:10d} {event}")
    if cluster and count > 1:
        for line in coverage_lines(seen, count, zookeeper=zookeeper):
            click.echo(line)
    click.echo(f"{count - len(failed)} of {count} seeds held; failed: {failed or 'none'}")
    sys.exit(bool(failed))


Outcome = tuple[int, ScenarioOutcome | str]
"""A seed, and what it came to: the story, if it failed."""


def _chosen(*, cluster: bool, zookeeper: bool, fifo: bool) -> Callable[[int], ScenarioOutcome]:
    if cluster:
        return partial(run_cluster_seed, fifo=fifo, zookeeper=zookeeper)
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
