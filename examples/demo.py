"""The tour of `make demo`: start a broker, stream records through it, look at its files, stop.

The broker is a process of its own, the client is librdkafka (confluent-kafka), as any user has it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

TOPIC = "river"
PARTITIONS = 3
RECORDS = 200_000
VALUE = b"the river flows past the stones, a little further with every record " * 2

console = Console()


def start_broker(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start `moldau serve` on a free port and wait for its one line."""
    command = [
        str(Path(sys.executable).with_name("moldau")), "serve",
        "--data", str(folder), "--listen", "127.0.0.1:0", "--log-level", "warn",
    ]  # fmt: skip
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert broker.stdout is not None
    line = broker.stdout.readline()
    if not line.startswith("ready "):
        broker.wait()
        sys.exit("the broker did not start; its own words are above")
    return broker, line.split()[1]


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>18}"),
        TimeElapsedColumn(),
        console=console,
    )


def rate(count: int, since: float) -> str:
    return f"{count / max(time.monotonic() - since, 1e-9):,.0f} records/s"


def produce(address: str) -> None:
    """Send the stream with acks=all and wait until all of it is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "log_level": 3,
        }
    )
    done = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal done
        if error is not None:
            sys.exit(f"a record was refused: {error}")
        done += 1

    with progress_bar() as progress:
        task = progress.add_task("produced", total=RECORDS, rate="")
        start = time.monotonic()
        for number in range(RECORDS):
            while True:
                try:
                    producer.produce(TOPIC, VALUE, key=str(number), on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 5000 == 0:
                producer.poll(0)
                progress.update(task, completed=done, rate=rate(done, start))
        producer.flush(60)
        progress.update(task, completed=done, rate=rate(done, start))


def consume(address: str) -> None:
    """Read everything back by assignment, from the beginning."""
    settings = {"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    with progress_bar() as progress:
        task = progress.add_task("consumed", total=RECORDS, rate="")
        start = time.monotonic()
        count = 0
        while count < RECORDS and time.monotonic() - start < 60:
            count += sum(message.error() is None for message in consumer.consume(10_000, 1.0))
            progress.update(task, completed=count, rate=rate(count, start))
    consumer.close()
    if count != RECORDS:
        sys.exit(f"only {count} of {RECORDS} records came back")


def show_files(folder: Path) -> None:
    """List what lies on disk, as Kafka would have laid it there."""
    table = Table(title=f"What lies in {folder}")
    table.add_column("file")
    table.add_column("bytes", justify="right")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.parent == folder or path.parent.name.startswith(TOPIC)):
            table.add_row(str(path.relative_to(folder)), f"{path.stat().st_size:,}")
    console.print(table)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    broker, address = start_broker(folder)
    console.print(f"A broker is ready at [bold]{address}[/bold]; any Kafka client can talk to it.")
    try:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        produce(address)
        consume(address)
    finally:
        broker.send_signal(signal.SIGTERM)
        status = broker.wait(60)
        if status == 0:
            show_files(folder)
        shutil.rmtree(folder)
    console.print(f"The broker stopped with status {status}.")
    sys.exit(status)


if __name__ == "__main__":
    main()
