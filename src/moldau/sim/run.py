"""`python -m moldau.sim.run --seed 7`: run seeds of the simulation and say what they came to.

One seed is run twice, to see that it gives the same run; of many, every twentieth is.
"""

from __future__ import annotations

import sys
from collections import Counter

import click

from moldau.sim.scenarios import Failed, ScenarioOutcome, run_seed

REPEATED_EVERY = 20


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1, show_default=True, help="How many seeds, one after the other.")
@click.option("--fifo", is_flag=True, help="Keep asyncio's own order, to bisect a failure.")
def main(seed: int, count: int, fifo: bool) -> None:
    """Run the broker inside the simulation, decided by a seed alone."""
    seen: Counter[str] = Counter()
    failed: list[int] = []
    for number in range(seed, seed + count):
        try:
            outcome = run_seed(number, fifo=fifo)
            if (number - seed) % REPEATED_EVERY == 0:
                _check_same(outcome, run_seed(number, fifo=fifo))
        except Failed as failure:
            failed.append(number)
            click.echo(str(failure))
        else:
            seen += outcome.seen
            if count == 1:
                click.echo(f"seed {number}: digest {outcome.digest}, {outcome.event_count} events")
    for event, times in sorted(seen.items()):
        click.echo(f"{times:10d} {event}")
    click.echo(f"{count - len(failed)} of {count} seeds held; failed: {failed or 'none'}")
    sys.exit(bool(failed))


def _check_same(first: ScenarioOutcome, second: ScenarioOutcome) -> None:
    if first.digest != second.digest:
        raise Failed(f"seed {first.seed}: not the same run twice")


if __name__ == "__main__":
    main()
