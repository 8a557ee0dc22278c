"""Run the attacks by name, each on a broker of its own, and print what they cost.

python -m tests.attacks.run --form compiled half_frames old_readers
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from attacks.scenes import SCENES
from attacks.watched import (
    MEMORY_LIMIT,
    MIB,
    STALL_GOAL_MS,
    Toll,
    exit_on_sigterm,
    watched_broker,
)


def attacked(name: str, folder: Path, *, compiled: bool) -> Toll:
    """Run one attack and return what it cost the broker."""
    with watched_broker(folder, compiled=compiled) as watched:
        SCENES[name](watched)
        watched.healthy.check()
        return watched.toll()


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
        with tempfile.TemporaryDirectory() as folder:
            toll = attacked(name, Path(folder), compiled=chosen.form == "compiled")
        print(f"{name}: {toll}", flush=True)
        for problem in toll.problems:
            failed = True
            print(f"{name}: PROBLEM: {problem}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
