"""Two checkouts of Moldau against each other: `python -m bench.versus OTHER`, OTHER a folder.

`.venv/compiled` is one too: what `make wheel` has built of this checkout.

On a machine that others use too, one minute differs from the next by more than most changes are
worth. So both brokers are up at the same time and take turns of a tenth of a second, in which the
machine is the same for both; what counts is the median over the ratios of neighbours. How much of
that is noise is seen from a checkout against itself, which is therefore always measured too.

The load is that of the commits in `make bench`, and a broker runs on one thread, so its CPU for
each of them is that of its main thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.commit_load import CommitLoop, commit_loop
from bench.scale import FULL
from bench.stage import Stage, data_topic
from bench.usage import Stolen, running_seconds
from bench.works.commits import GROUPS
from bench.works.groups import SETTINGS

HERE = Path(__file__).parents[1]
TURN_S = 0.12
WARM_UP_S = 2.0


class Side(NamedTuple):
    """A broker that is up, and who asks it."""

    name: str
    pid: int
    loop: CommitLoop


class Turn(NamedTuple):
    """What a side has done in one turn."""

    rate: float
    cpu_us: float
    """For each commit."""


def start(stack: ExitStack, checkout: Path, folder: Path, name: str) -> Side:
    """Start the broker of a checkout; it ends with the stack."""
    source = next((one for one in (checkout / "src", checkout) if (one / "moldau").is_dir()), None)
    if source is None:
        sys.exit(f"{checkout} is no checkout of Moldau, nor what `make wheel` has built of one")
    os.environ["PYTHONPATH"] = str(source)
    stage = Stage("moldau", folder / name.replace(" ", "-"), FULL)
    broker = stack.enter_context(stage.broker(settings=SETTINGS))
    loop = commit_loop(broker.address, data_topic(broker, "commits", 1), GROUPS)
    stack.callback(loop.close)
    loop.run(WARM_UP_S)
    return Side(name, broker.pid, loop)


def take_turn(side: Side) -> Turn:
    """Commit for a moment."""
    before_s = running_seconds(side.pid)
    count = max(side.loop.run(TURN_S), 1)
    return Turn(count / TURN_S, (running_seconds(side.pid) - before_s) / count * 1e6)


def measure(sides: list[Side], rounds: int) -> list[list[Turn]]:
    """Let all take turns, in an order that alternates."""
    measured = []
    for number in range(rounds):
        turns = {side.name: take_turn(side) for side in sides[:: 1 if number % 2 else -1]}
        measured.append([turns[side.name] for side in sides])
    return measured


def main() -> None:
    """Print the ratios of the other checkout, and of this one once more, to this one."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("other", type=Path, help="the folder of another checkout")
    parser.add_argument("--rounds", type=int, default=120)
    asked = parser.parse_args()
    stolen = Stolen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-versus-")))
        checkouts = {"this": HERE, "this again": HERE, "other": asked.other.absolute()}
        sides = [start(stack, path, folder, name) for name, path in checkouts.items()]
        rounds = measure(sides, asked.rounds)
    for place, side in enumerate(sides):
        turns = [turns[place] for turns in rounds]
        cpu = statistics.median(turns[place].cpu_us / turns[0].cpu_us for turns in rounds)
        rate = statistics.median(turns[place].rate / turns[0].rate for turns in rounds)
        print(
            f"{side.name + ':':12} {statistics.median(turn.rate for turn in turns):,.0f} commits/s,"
            f" {min(turn.cpu_us for turn in turns):.1f} us of CPU each at best;"
            f" to this: {rate:.3f}x the rate, {cpu:.3f}x the CPU"
        )
    print(f"{stolen.share():.0%} of the processors' time went to other guests of the machine")


if __name__ == "__main__":
    main()
