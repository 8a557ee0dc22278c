"""Handing lines to a producer, and knowing what became of each.

Deliveries are looked at in bulk: who asks for every record when it is done would pay for each what
sending it costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from moldau.base.errors import MoldauError, UserError
from moldau.cli.stream.progress import Progress
from moldau.cli.stream.reading import Read
from moldau.client.errors import ClientError
from moldau.client.producer import Delivery, Producer
from moldau.client.records import Header

SWEEP_COUNT: Final = 10_000
"""So many deliveries may wait to be looked at; more where that many are still on their way."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go, and what they have where their line does not say it."""

    topic: str
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()


class Failed(MoldauError):  # noqa: N818 - it names the event
    """A line that could not be read, or a record that could not be delivered."""

    def __init__(self, number: int, error: MoldauError) -> None:
        super().__init__(f"line {number}: {error}")
        self.number = number
        self.__cause__ = error


class Sending:
    """One stream of lines on its way to one topic."""

    def __init__(
        self, producer: Producer[bytes, bytes], target: Target, read: Read, progress: Progress
    ) -> None:
        self.delivered_count = 0
        self.failure: Failed | None = None
        """Of the first line that failed."""
        self._producer = producer
        self._target = target
        self._read = read
        self._progress = progress
        self._line_count = 0
        self._underway: list[tuple[int, Delivery]] = []
        self._sweep_at = SWEEP_COUNT

    def run(self, lists: Iterable[list[bytes]]) -> None:
        """Send lines until they end, one fails, or Ctrl-C; call `settle` in any case."""
        for lines in lists:
            size = 0
            for line in lines:
                size += len(line)
                if not self._send(line):
                    return
            self._progress.add(len(lines), size)
            if len(self._underway) >= self._sweep_at:
                self.sweep()
            if self.failure is not None:
                return

    def settle(self) -> None:
        """Wait until it is known of every record what became of it."""
        self._producer.flush()
        self.sweep()

    def _send(self, line: bytes) -> bool:
        self._line_count += 1
        target = self._target
        try:
            value, key, partition, timestamp_ms, headers = self._read(line)
            delivery = self._producer.send(
                target.topic,
                value,
                target.key if key is None else key,
                partition=target.partition if partition is None else partition,
                timestamp_ms=timestamp_ms,
                headers=(*target.headers, *headers) if headers else target.headers,
            )
        except (ClientError, UserError) as error:
            self._fail(self._line_count, error)
            return False
        self._underway.append((self._line_count, delivery))
        return True

    def sweep(self) -> None:
        """Look at what is done, and keep the rest."""
        left = []
        for number, delivery in self._underway:
            if not delivery.done():
                left.append((number, delivery))
            elif (error := delivery.exception()) is None:
                self.delivered_count += 1
            else:
                self._fail(number, error)
        self._underway = left
        self._sweep_at = max(SWEEP_COUNT, 2 * len(left))

    def _fail(self, number: int, error: MoldauError) -> None:
        if self.failure is None or number < self.failure.number:
            self.failure = Failed(number, error)
