"""Two checkouts of Moldau against each other: `python -m bench.versus OTHER`, OTHER a folder.

`.venv/compiled` is one too: what `make wheel` has built of a checkout. OTHER is compared with
this checkout, or with the folder that `--this` names. Two folders of compiled code compare two
compiled forms.

On a machine that others use too, one minute differs from the next by more than most changes are
worth. So both brokers are up at the same time and take short turns, in which the machine is the
same for both; what counts is the median over the ratios of neighbours. How much of that is noise
is seen from a checkout against itself, which is therefore always measured too.

The loads: offset commits, as in `make bench`, and produces of one record, on 50 connections that
each wait for an answer, in turns of a tenth of a second; produces and fetches of many records by
librdkafka, in turns of as many bytes as take about a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.kafka_harness.broker import BrokerProcess
from tests.kafka_harness.ending import exit_on_sigterm

from bench.commit_load import commit_loop
from bench.raw_connection import framed
from bench.request_loop import RequestLoop, connected
from bench.scale import FULL, MB
from bench.stage import DATA_PARTITIONS, Stage, data_topic, fill, read_back
from bench.usage import Stolen, cpu_seconds, running_seconds
from bench.works.commits import GROUPS
from bench.works.groups import SETTINGS
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.records.builder import BatchBuilder

HERE = Path(__file__).parents[1]
TURN_S = 0.12
TURN_BYTES = 300 * MB
WARM_UP_S = 2.0
PRODUCE_VERSION = 9


class Turn(NamedTuple):
    """What a side has done in one turn."""

    rate: float
    cpu_us: float
    """For each unit of the rate."""


class Side(NamedTuple):
    """A broker that is up, and the work it is given."""

    name: str
    take_turn: Callable[[], Turn]


class Load(NamedTuple):
    """A kind of work: its unit, its rounds, and a function that prepares a broker for it."""

    unit: str
    rounds: int
    turns_of: Callable[[ExitStack, BrokerProcess, int], Callable[[], Turn]]


def commits(stack: ExitStack, broker: BrokerProcess, _: int) -> Callable[[], Turn]:
    """Commit one offset after the other for 50 groups."""
    loop = commit_loop(broker.address, data_topic(broker, "commits", 1), GROUPS)
    return _small_requests(stack, broker, loop)


def small_produces(stack: ExitStack, broker: BrokerProcess, size: int) -> Callable[[], Turn]:
    """Write one record after the other to six partitions."""
    topic = data_topic(broker, "small-produces")
    sockets = [connected(broker.address) for _ in range(GROUPS)]
    frames = []
    for number in range(GROUPS):
        builder = BatchBuilder()
        builder.append(0, None, bytes(size))
        data = [PartitionProduceData(number % DATA_PARTITIONS, builder.build())]
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=data)])
        frames.append(framed(request, PRODUCE_VERSION))
    # Size, correlation id, tags, topic, partition, error; then comes the offset.
    before_offset = 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + 4 + 2
    expected = []
    for connection, frame in zip(sockets, frames, strict=True):
        connection.sendall(frame)
        expected.append(connection.recv(65_536)[:before_offset])
        if expected[-1][-2:] != bytes(2):
            sys.exit("a produce was refused")
    return _small_requests(stack, broker, RequestLoop(sockets, frames, expected))


def _small_requests(
    stack: ExitStack, broker: BrokerProcess, loop: RequestLoop
) -> Callable[[], Turn]:
    """Run the loop for a moment. The broker works on its main thread only, so its CPU is that."""
    stack.callback(loop.close)
    loop.run(WARM_UP_S)

    def turn() -> Turn:
        before_s = running_seconds(broker.pid)
        count = max(loop.run(TURN_S), 1)
        return Turn(count / TURN_S, (running_seconds(broker.pid) - before_s) / count * 1e6)

    return turn


def produces(_: ExitStack, broker: BrokerProcess, size: int) -> Callable[[], Turn]:
    """Write some hundred megabytes."""
    topic = data_topic(broker, "produces")
    return lambda: _bytes_turn(broker, lambda: fill(broker, topic, size, TURN_BYTES, sys.maxsize))


def fetches(_: ExitStack, broker: BrokerProcess, size: int) -> Callable[[], Turn]:
    """Read the same megabytes again and again, from the page cache."""
    topic = data_topic(broker, "fetches")
    written = fill(broker, topic, size, TURN_BYTES, sys.maxsize)
    return lambda: _bytes_turn(broker, lambda: read_back(broker, topic, written))


def _bytes_turn(broker: BrokerProcess, work: Callable[[], dict[str, float]]) -> Turn:
    before_s = cpu_seconds(broker.pid)
    done = work()
    amount = done["bytes"] / MB
    return Turn(amount / done["seconds"], (cpu_seconds(broker.pid) - before_s) / amount * 1e6)


LOADS = {
    "commits": Load("commits/s", 120, commits),
    "small_produces": Load("produces/s", 120, small_produces),
    "produces": Load("MB/s", 15, produces),
    "fetches": Load("MB/s", 15, fetches),
}


def start(stack: ExitStack, checkout: Path, folder: Path) -> BrokerProcess:
    """Start the broker of a checkout; it ends with the stack."""
    source = next((one for one in (checkout / "src", checkout) if (one / "moldau").is_dir()), None)
    if source is None:
        sys.exit(f"{checkout} is no checkout of Moldau, nor what `make wheel` has built of one")
    os.environ["PYTHONPATH"] = str(source)
    return stack.enter_context(Stage("moldau", folder, FULL).broker(settings=SETTINGS))


def measure(sides: list[Side], rounds: int) -> list[list[Turn]]:
    """Let all take turns, in an order that alternates."""
    measured = []
    for number in range(rounds):
        turns = {side.name: side.take_turn() for side in sides[:: 1 if number % 2 else -1]}
        measured.append([turns[side.name] for side in sides])
    return measured


def report(sides: list[Side], rounds: list[list[Turn]], unit: str) -> None:
    """Print what each side did, and its ratios to the first."""
    for place, side in enumerate(sides):
        turns = [turns[place] for turns in rounds]
        cpu = statistics.median(turns[place].cpu_us / turns[0].cpu_us for turns in rounds)
        rate = statistics.median(turns[place].rate / turns[0].rate for turns in rounds)
        print(
            f"{side.name + ':':12} {statistics.median(turn.rate for turn in turns):,.0f} {unit},"
            f" {min(turn.cpu_us for turn in turns):,.1f} us of CPU each at best;"
            f" to this: {rate:.3f}x the rate, {cpu:.3f}x the CPU"
        )


def main() -> None:
    """Print the ratios of the other checkout, and of this one once more, to this one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.versus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("other", type=Path, help="the folder of another checkout")
    parser.add_argument("--this", type=Path, default=HERE, help="the folder it is compared with")
    parser.add_argument("--load", choices=LOADS, default="commits")
    parser.add_argument("--size", type=int, default=1_000, help="of records, in bytes")
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    load, this = LOADS[asked.load], asked.this.absolute()
    checkouts = {"this": this, "this again": this, "other": asked.other.absolute()}
    stolen = Stolen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-versus-")))
        sides = []
        for name, checkout in checkouts.items():
            broker = start(stack, checkout, folder / name.replace(" ", "-"))
            sides.append(Side(name, load.turns_of(stack, broker, asked.size)))
        rounds = measure(sides, asked.rounds or load.rounds)
    report(sides, rounds, load.unit)
    print(f"{stolen.share():.0%} of the processors' time went to other guests of the machine")


if __name__ == "__main__":
    exit_on_sigterm()
    main()
