"""Run the attacks by name, each on a broker of its own, and print what they cost.

python -m tests.attacks.run --form compiled half_frames old_readers
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.usage import Stolen

from attacks.scenes import SCENES
from attacks.watched import (
    MEMORY_LIMIT,
    MIB,
    STALL_GOAL_MS,
    Toll,
    watched_broker,
)
from kafka_harness.ending import exit_on_sigterm

TRIES: Final = 2
PROBLEM: Final = "PROBLEM"


def attacked(name: str, folder: Path, *, compiled: bool) -> Toll:
    """Run one attack and return what it cost the broker."""
    with watched_broker(folder, compiled=compiled) as watched:
        SCENES[name](watched)
        watched.healthy.check()
        return watched.toll()


def tolls(name: str, *, compiled: bool) -> Iterator[str]:
    """Run one attack, again after a long stall, and tell of each run.

    Other guests of the machine may stop it for as long as that. What they do does not come again.
    """
    for _ in range(TRIES):
        stolen = Stolen()
        with tempfile.TemporaryDirectory() as folder:
            toll = attacked(name, Path(folder), compiled=compiled)
        yield f"{toll}, {stolen.share():.1%} of the processors taken by others"
        yield from (f"{PROBLEM}: {problem}" for problem in toll.problems)
        if toll.stall_s * 1000 <= STALL_GOAL_MS:
            return


def main() -> int:
    """Run the attacks; return 1 if one of them did what none may do."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description="Attack real brokers.")
    parser.add_argument("names", nargs="*", help=f"attacks; all of them: {', '.join(SCENES)}")
    parser.add_argument("--form", choices=["checkout", "compiled"], default="checkout")
    chosen = parser.parse_args()
    print(
        f"{chosen.form}: goals are {STALL_GOAL_MS} ms on an idle machine, {MEMORY_LIMIT // MIB} MiB"
    )
    failed = False
    for name in chosen.names or SCENES:
        for line in tolls(name, compiled=chosen.form == "compiled"):
            print(f"{name}: {line}", flush=True)
            failed = failed or line.startswith(PROBLEM)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
