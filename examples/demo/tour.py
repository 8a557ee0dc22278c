"""What is shown without Java: the broker alone. A stream goes through it, and its files are listed.

The client is librdkafka (confluent-kafka), as many users of Kafka have it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from examples.demo.ending import Ending
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

TOPIC: Final = "river"
PARTITIONS: Final = 3
RECORDS: Final = 200_000
VALUE: Final = b"the river flows past the stones, a little further with every record " * 2

AT_ONCE: Final = 5000
"""So many records go by between two looks at how far it is."""

Advance = Callable[[int], None]


class Tour:
    """A stream, there and back."""

    def __init__(self, address: str, console: Console, ending: Ending) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": address, "log_level": 3}
        self._console = console
        self._ending = ending

    def show(self) -> bool:
        """Show it; tell whether every record came back."""
        self._console.print(f"A broker is ready at {self._client['bootstrap.servers']}.")
        admin = AdminClient(self._client)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        sent, received = (
            self._timed("produced", self._produce),
            self._timed("consumed", self._consume),
        )
        return self._ending.is_asked_for or sent == received == RECORDS

    def _timed(self, name: str, work: Callable[[Advance], int]) -> int:
        """Do something with all records, with a bar that says how far and how fast."""
        began = time.monotonic()
        with _bar(self._console) as progress:
            task = progress.add_task(name, total=RECORDS, rate="")

            def advance(count: int) -> None:
                rate = count / max(time.monotonic() - began, 1e-9)
                progress.update(task, completed=count, rate=f"{rate:,.0f} records/s")

            count = work(advance)
            advance(count)
        return count

    def _produce(self, advance: Advance) -> int:
        """Send all records; return how many were acknowledged by the broker."""
        producer = Producer({**self._client, "acks": "all", "linger.ms": 5})
        acknowledged = 0

        def on_delivery(error: object, _message: Message) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        for first in range(0, RECORDS, AT_ONCE):
            if self._ending.is_asked_for:
                break
            for number in range(first, first + AT_ONCE):
                producer.produce(TOPIC, VALUE, key=str(number), on_delivery=on_delivery)
            while len(producer) > AT_ONCE:
                producer.poll(0.1)
            advance(acknowledged)
        producer.flush(60)
        return acknowledged

    def _consume(self, advance: Advance) -> int:
        """Read from the beginning until all records have come; return how many did."""
        consumer = Consumer({**self._client, "group.id": "demo", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        count, deadline = 0, time.monotonic() + 60
        while count < RECORDS and time.monotonic() < deadline and not self._ending.is_asked_for:
            count += sum(message.error() is None for message in consumer.consume(AT_ONCE, 1.0))
            advance(count)
        consumer.close()
        return count


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>18}"),
        TimeElapsedColumn(),
        console=console,
    )


def files(data: Path) -> Table:
    """List what lies in a broker's folder, as Kafka would have laid it there."""
    table = Table(title=f"What lies in {data}", title_justify="left")
    table.add_column("file")
    table.add_column("bytes", justify="right")
    for path in sorted(data.rglob("*")):
        if path.is_file() and (path.parent == data or path.parent.name.startswith(TOPIC)):
            table.add_row(str(path.relative_to(data)), f"{path.stat().st_size:,}")
    return table
