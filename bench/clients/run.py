"""`python -m bench.clients.run`: every kind of work with every client, several rounds, one table.

Within a round all clients have their turn at everything, and the order of a round is that of the
one before reversed: a machine that is slower for a minute is so for all of them. The table is
written after every round, so that a run that is cut short has told something.

`--broker` chooses the broker. `--form` chooses our client: that of the checkout, or the compiled
one of `make wheel`. Each combination has a page of its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path

from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.kinds import KINDS, make_broker

from bench.clients.bars import COMPARISONS
from bench.clients.report import render
from bench.report import Figures

WORKS = tuple(dict.fromkeys(comparison.measure.work for comparison in COMPARISONS))
ROUNDS = 9
FOLDER = Path(__file__).parents[1]
FORMS = ("moldau", "moldau-compiled")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients.run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS, metavar="WORK",
                        help=f"some of: {', '.join(WORKS)}")  # fmt: skip
    parser.add_argument("--broker", choices=KINDS, default="kafka")
    parser.add_argument("--form", choices=FORMS, default="moldau-compiled")
    parser.add_argument("--output", type=Path, help="[a page of bench/ for broker and form]")
    asked = parser.parse_args(arguments)
    asked.output = asked.output or FOLDER / page_name(asked.broker, asked.form)
    return asked


def page_name(broker: str, form: str) -> str:
    """Return the page of a broker and a form of our client."""
    on = "" if broker == "kafka" else f"-on-{broker}"
    return f"CLIENTS{on}{'' if form == 'moldau-compiled' else '-checkout'}.md"


def main(arguments: list[str]) -> None:
    asked = parse(arguments)
    rounds: list[Figures] = []
    works = [importlib.import_module(f"bench.clients.{work}") for work in asked.works]
    with tempfile.TemporaryDirectory() as folder, make_broker(asked.broker, Path(folder)) as broker:
        # Only now: the broker has its own form, and has been started.
        os.environ.update(KINDS[asked.form](Path(folder)).environment())
        for work in works:
            if hasattr(work, "prepare"):
                work.prepare(broker.address)
        for number in range(asked.rounds):
            figures: Figures = {}
            for work in works:
                figures |= work.run(broker.address, backwards=number % 2 == 1)
            rounds.append(figures)
            print(f"round {number + 1} of {asked.rounds}:", flush=True)
            for key, value in figures.items():
                print(f"  {key} {value:.4g}", flush=True)
            asked.output.write_text(render(rounds, broker.version(), asked.form))
    print(asked.output.read_text())


if __name__ == "__main__":
    exit_on_sigterm()
    main(sys.argv[1:])
