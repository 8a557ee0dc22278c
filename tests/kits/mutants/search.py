"""`python -m kits.mutants.search`: how many seeds it takes to find each mutant, in the median.

Each is run over consecutive seeds until a check finds it, from several first seeds. Prints a line
for each, as the table of docs/reliability.md has them; the exit code says whether all were found.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from statistics import median

import click

from kits.mutants import coordination, quorum, replication, storage, zookeeper
from kits.mutants.catching import Accident, Catch, catch
from moldau.sim.in_parallel import in_parallel

MUTANTS = (
    replication.MUTANTS
    | coordination.MUTANTS
    | storage.MUTANTS
    | zookeeper.MUTANTS
    | quorum.MUTANTS
)

SEEDS_APART = 1000
"""Between two first seeds."""

Found = tuple[str, Catch | str | None]
"""The name of a mutant, and how it was found; the story of an accident; None if it was not."""


@click.command()
@click.option("--starts", default=5, show_default=True, help="From so many first seeds.")
@click.option("--limit", default=60, show_default=True, help="Seeds after which to give up.")
@click.option("--jobs", default=1, show_default=True, help="How many searches run at a time.")
@click.argument("parts", nargs=-1)
def main(starts: int, limit: int, jobs: int, parts: tuple[str, ...]) -> None:
    """Search for mutants; PARTS of their names choose some of them."""
    names = [name for name in MUTANTS if not parts or any(part in name for part in parts)]
    tasks = [(name, number * SEEDS_APART) for name in names for number in range(starts)]
    all_found = True
    results = in_parallel(partial(_search, limit=limit), tasks, jobs)
    for name in names:
        searches = [next(results)[1] for _ in range(starts)]
        all_found = all_found and all(isinstance(one, Catch) for one in searches)
        click.echo(_line(name, searches, limit))
    sys.exit(not all_found)


def _search(task: tuple[str, int], *, limit: int) -> Found:
    name, first_seed = task
    try:
        return name, catch(MUTANTS[name], first_seed, limit)
    except Accident as accident:
        return name, str(accident)


def _line(name: str, searches: list[Catch | str | None], limit: int) -> str:
    for one in searches:
        if isinstance(one, str):
            return f"| {name} | accident | {one} |"
    # One that was not found counts as more than the limit, so that the median stays a number.
    seeds = [one.seeds if isinstance(one, Catch) else limit + 1 for one in searches]
    checks = Counter(one.said.split(":")[0] for one in searches if isinstance(one, Catch))
    said = ", ".join(check for check, _ in checks.most_common()) or "none"
    lost = sum(one is None for one in searches)
    note = f" ({lost} of {len(searches)} not found)" if lost else ""
    return f"| {name} | {median(seeds):g}{note} | {said} |"


if __name__ == "__main__":
    main()
