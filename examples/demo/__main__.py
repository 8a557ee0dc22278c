"""`python -m examples.demo`: what can be said to it, and how it ends."""

from __future__ import annotations

from examples.demo.ending import Ending

ENDING = Ending()
ENDING.listen()  # first of all: what is imported below takes a while, and Ctrl-C may come then

import argparse  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Final  # noqa: E402

from confluent_kafka import KafkaException  # noqa: E402
from examples.demo import view  # noqa: E402
from examples.demo.broker import Topics, start_broker  # noqa: E402
from examples.demo.cast import PIPELINES, TOPICS, Cast, Pipeline  # noqa: E402
from examples.demo.looking import Observer  # noqa: E402
from examples.demo.parts import PartFailed, Parts  # noqa: E402
from examples.demo.story import Story  # noqa: E402
from examples.demo.summary import show_summary  # noqa: E402
from examples.demo.tour import Tour, files  # noqa: E402
from examples.demo.workplace import workplace  # noqa: E402
from rich.console import Console  # noqa: E402

from moldau import Admin, ClientError  # noqa: E402
from moldau.spark.pipelines.session.java import what_is_missing  # noqa: E402

SECONDS: Final = 120.0


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Understand the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="Everything Moldau does, on this machine, in a folder that is removed again.",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, default=SECONDS, help="how long [%(default).0f]")
    length.add_argument("--forever", action="store_true", help="until Ctrl-C")
    parser.add_argument(
        "--pipelines", type=_pipelines, default=PIPELINES, metavar="NAME,...",
        help=f"which ones [{','.join(one.name for one in PIPELINES)}]",
    )  # fmt: skip
    return parser.parse_args(words)


def _pipelines(text: str) -> list[Pipeline]:
    known = {one.name: one for one in PIPELINES}
    try:
        return [known[name] for name in text.split(",")]
    except KeyError as unknown:
        raise argparse.ArgumentTypeError(f"{unknown} is none of {', '.join(known)}") from None


def main(words: Sequence[str]) -> int:
    """Show it; return the status to exit with."""
    wish, console = parsed(words), Console()
    logging.getLogger("moldau").setLevel(logging.CRITICAL)  # a broker that is gone is told below
    try:
        with workplace() as folder, Parts(folder, ENDING) as parts:
            address = start_broker(parts, folder, ENDING)
            if address is None:
                return 0
            if (missing := what_is_missing()) is not None:
                console.print(f"{missing}; this is the rest", soft_wrap=True)
                return without_java(console, address, folder, parts)
            return with_everything(console, wish, Cast(folder, address), parts)
    except (PartFailed, ClientError, KafkaException) as failed:
        print(f"demo: {failed}", file=sys.stderr)
        return 1


def with_everything(console: Console, wish: argparse.Namespace, cast: Cast, parts: Parts) -> int:
    """Tell the whole story."""
    with Admin(cast.address) as admin:
        observer = Observer(cast, Topics(admin, TOPICS), wish.pipelines)
        story = Story(cast, wish.pipelines, parts, observer, ENDING)
        with view.opened(console) as screen:
            last = story.play(screen, None if wish.forever else wish.seconds)
        adds_up = show_summary(console, last, story.accounts(last))
    parts.end(parts.running)
    return 0 if adds_up or ENDING.is_asked_for else 1


def without_java(console: Console, address: str, folder: Path, parts: Parts) -> int:
    """Show the broker alone, and what it leaves on disk."""
    came_back = Tour(address, console, ENDING).show()
    parts.end(parts.running)
    console.print(files(folder / "broker"))
    return 0 if came_back else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
